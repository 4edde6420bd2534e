"""The style sheet of all pages: light, dark and print."""

from __future__ import annotations

STYLE = """
:root { --paper: #fbfaf8; --card: #ffffff; --ink: #1c1b1a; --soft: #6b6660; --line: #e6e1da; --rail: #f1ede7;
  --c0: #d9480f; --c1: #1971c2; --c2: #2b8a3e; --c3: #862e9c; --c4: #b08900; --c5: #5f6b76;
  --warn: #c92a2a; --good: #2b8a3e; --note: #1971c2; --glow: #d9480f14; --shade: #0003; }
@media (prefers-color-scheme: dark) { :root { --paper: #161413; --card: #1f1c1a; --ink: #efebe6; --soft: #a39c94;
  --line: #36312d; --rail: #2a2623; --c0: #ff8a4c; --c1: #62b0ff; --c2: #69db7c; --c3: #d59bf0; --c4: #ffd43b;
  --c5: #adb5bd; --warn: #ff7b7b; --good: #69db7c; --note: #62b0ff; --glow: #ff8a4c1f; --shade: #000a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.45;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px; }
header h1 { margin: 0; font-size: 32px; letter-spacing: -.02em; line-height: 1.15; overflow-wrap: anywhere; }
header::before { content: ""; display: block; width: 56px; height: 5px; border-radius: 3px; background: var(--c0);
  margin-bottom: 18px; }
header p, section > p, figure > p, footer { color: var(--soft); }
header p { margin: 8px 0 0; overflow-wrap: anywhere; }
section { margin-top: 44px; }
h2 { font-size: 21px; margin: 0 0 4px; letter-spacing: -.01em; overflow-wrap: anywhere; }
h3 { font-size: 15px; margin: 0 0 2px; }
section > p { margin: 0 0 14px; }
figure > p { margin: 0 0 10px; font-size: 13px; }
.tiles { display: flex; flex-wrap: wrap; gap: 1px; margin-top: 28px;
  background: var(--line); border: 1px solid var(--line); border-radius: 12px; overflow: hidden; }
.tiles div { background: var(--card); padding: 16px 18px; display: flex; flex-direction: column; flex: 1 1 150px; }
.tiles span { color: var(--soft); font-size: 13px; }
.tiles b { font-size: 25px; font-weight: 650; letter-spacing: -.02em; font-variant-numeric: tabular-nums; }
.tiles small { color: var(--soft); font-size: 12.5px; }
.headlines ul { list-style: none; margin: 14px 0 0; padding: 0; }
.headlines li { padding: 9px 14px 9px 38px; position: relative; font-size: 16px; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
.headlines li:last-child { border-bottom: 0; }
.headlines li::before { content: ""; position: absolute; left: 12px; top: 15px; width: 11px; height: 11px;
  border-radius: 50%; background: var(--note); }
.headlines li.warn::before { background: var(--warn); border-radius: 2px; transform: rotate(45deg); }
.headlines li.good::before { background: var(--good); }
.headlines li.warn { font-weight: 600; }
.grid { columns: 2 400px; column-gap: 16px; margin-top: 14px; }
figure { margin: 0 0 16px; background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 16px 18px;
  min-width: 0; break-inside: avoid; }
figure.wide { column-span: all; }
figure.wide:not(:first-child) { margin-top: 16px; }
figure svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 11.5px; font-variant-numeric: tabular-nums; }
svg text.name { fill: var(--ink); font-size: 12.5px; }
svg text.figure { fill: var(--ink); font-size: 12px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .rail { fill: var(--rail); }
svg .bar, svg .cell { fill: var(--c0); }
svg .bar.warn { fill: var(--warn); }
svg .bar.calm { fill: var(--c5); }
svg .bar.c1 { fill: var(--c1); }
svg .bar.c2 { fill: var(--c2); }
svg .bar.c3 { fill: var(--c3); }
svg .bar.c4 { fill: var(--c4); }
svg .bar:hover, svg .cell:hover { filter: brightness(1.15); }
svg .area { fill: var(--c0); fill-opacity: .13; }
svg .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
svg .line.c0 { stroke: var(--c0); } svg .line.c1 { stroke: var(--c1); } svg .line.c2 { stroke: var(--c2); }
svg .line.c3 { stroke: var(--c3); } svg .line.c4 { stroke: var(--c4); } svg .line.c5 { stroke: var(--c5); }
svg .hit { fill: transparent; }
svg .hit:hover { fill: var(--glow); }
figure svg.spark { width: 120px; height: 24px; vertical-align: middle; }
.narrow { display: none; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--soft); padding: 6px 0 0 52px; }
.legend i { display: inline-block; width: 12px; height: 3px; border-radius: 2px; margin-right: 6px;
  vertical-align: middle; }
.legend .c0 { background: var(--c0); } .legend .c1 { background: var(--c1); } .legend .c2 { background: var(--c2); }
.legend .c3 { background: var(--c3); } .legend .c4 { background: var(--c4); } .legend .c5 { background: var(--c5); }
.scroll { overflow-x: auto; background: linear-gradient(to right, var(--card) 40%, transparent) left / 40px 100%,
  linear-gradient(to left, var(--card) 40%, transparent) right / 40px 100%,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100%,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--line); }
th, td { padding: 7px 14px 7px 0; vertical-align: middle; }
td:first-child { min-width: 90px; }
td { border-bottom: 1px solid var(--rail); }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
b.good { color: var(--good); } b.warn { color: var(--warn); }
.nothing { color: var(--soft); padding: 24px 0; margin: 0; text-align: center; }
footer { margin-top: 48px; padding-top: 16px; border-top: 1px solid var(--line); font-size: 13px; }
@media screen and (max-width: 700px) {
  main { padding: 28px 14px 48px; }
  .roomy { display: none; }
  .narrow { display: block; }
  table { font-size: 12.5px; }
  th, td { padding-right: 10px; }
}
@media print {
  :root { --paper: #fff; --card: #fff; --ink: #111; --soft: #555; --line: #ccc; --rail: #eee; --c0: #d9480f;
    --c1: #1971c2; --c2: #2b8a3e; --c3: #862e9c; --c4: #b08900; --c5: #5f6b76; --warn: #c92a2a; --good: #2b8a3e;
    --note: #1971c2; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  section { margin-top: 24px; }
  .tiles, h2, h3 { break-inside: avoid; break-after: avoid; }
}
"""
