/* What pages do in the browser: keys, dialogs, charts, live parts. No page needs it to be read. */
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const language = document.documentElement.lang || "en";

  // --- times in the reader's zone
  const moment = new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en-GB", {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  });
  function showTimes(root = document) {
    for (const element of $$("time[datetime]", root)) {
      if (element.title) continue;
      const at = new Date(element.dateTime);
      element.title = moment.format(at);
      const today = new Date().toDateString() === at.toDateString();
      element.textContent = today ? at.toLocaleTimeString("en-GB") : moment.format(at);
    }
  }

  // --- charts
  const charts = new Map();
  function short(value) {
    if (value == null) return "–";
    const size = Math.abs(value);
    for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
      if (size >= limit) return +(value / (unit === "k" ? 1e3 : limit)).toPrecision(3) + unit;
    }
    return size >= 100 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
  }
  function draw(element) {
    const data = JSON.parse(element.dataset.chart);
    const known = charts.get(element.id);
    if (known && known.root.isConnected && known.count === data.series.length) {
      known.unit = data.unit;
      known.plot.setData([data.times, ...data.series.map((one) => one.values)]);
      return;
    }
    if (known) known.plot.destroy();
    charts.delete(element.id);
    if (!data.times.length || !window.uPlot) return;
    element.replaceChildren();
    const tip = document.createElement("div");
    tip.className = "chart-tip";
    tip.hidden = true;
    const entry = { unit: data.unit, count: data.series.length, root: element };
    const axis = { stroke: css("--soft"), grid: { stroke: css("--rail"), width: 1 }, ticks: { show: false }, font: "11.5px system-ui" };
    const options = {
      width: element.clientWidth, height: element.clientHeight, legend: { show: false }, padding: [10, 20, 0, 0],
      cursor: { points: { size: 7 }, drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.12 : 1] } },
      axes: [
        { ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })) },
        { ...axis, size: 52, space: 34, values: (_, ticks) => ticks.map(short) },
      ],
      series: [{}, ...data.series.map((one) => ({
        label: one.label, stroke: css(`--${one.tone}`), width: 1.8, spanGaps: true, points: { show: false },
        fill: one.tone === "c1" ? undefined : css(`--${one.tone}`) + "20",
      }))],
      hooks: { setCursor: [(plot) => {
        const at = plot.cursor.idx;
        tip.hidden = at == null || plot.cursor.left < 0;
        if (tip.hidden) return;
        const time = new Date(plot.data[0][at] * 1000).toLocaleTimeString("en-GB");
        tip.textContent = [time, ...plot.series.slice(1).map((one, index) => `${one.label} ${short(plot.data[index + 1][at])}${entry.unit}`)].join("  ·  ");
        const left = plot.bbox.left / devicePixelRatio + plot.cursor.left;
        tip.style.left = `${Math.max(0, Math.min(left + 12, element.clientWidth - tip.offsetWidth))}px`;
      }] },
    };
    entry.plot = new uPlot(options, [data.times, ...data.series.map((one) => one.values)], element);
    element.append(tip);
    charts.set(element.id, entry);
  }
  function drawAll(root = document) { $$("[data-chart]", root).forEach(draw); }
  function redraw() {
    for (const entry of charts.values()) entry.plot.destroy();
    charts.clear();
    drawAll();
  }
  new ResizeObserver(() => {
    for (const { plot, root } of charts.values()) plot.setSize({ width: root.clientWidth, height: root.clientHeight });
  }).observe(document.body);

  // --- live parts: what has an id and data-live is replaced when the server's page differs
  let source = null;
  function follow() {
    if (source) source.close();
    source = null;
    if (document.hidden || !$("[data-live]")) return;
    source = new EventSource(`/live?page=${encodeURIComponent(location.pathname + location.search)}`);
    source.addEventListener("page", (event) => update(event.data));
    source.addEventListener("tick", (event) => setAge(parseFloat(event.data)));
  }
  function update(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const next of $$("[data-live][id]", fresh)) {
      const now = document.getElementById(next.id);
      if (!now || $("dialog[open]", now)) continue;  // somebody decides about what is shown there
      if (now.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) continue;
      if (next.dataset.chart !== undefined) {
        if (now.dataset.chart !== next.dataset.chart) { now.dataset.chart = next.dataset.chart; draw(now); }
        continue;
      }
      if (now.dataset.html === next.outerHTML) continue;
      const focused = now.contains(document.activeElement) ? place(document.activeElement) : "";
      const open = $$("details[open][id]", now).map((one) => one.id);
      next.dataset.html = next.outerHTML;
      now.replaceWith(next);
      prepare(next);
      open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
      if (focused) $(focused, next)?.focus();
    }
  }
  function place(element) {
    const name = ["href", "data-open"].find((one) => element.hasAttribute(one));
    return name ? `[${name}="${CSS.escape(element.getAttribute(name))}"]` : "";
  }
  let age = 0;
  function setAge(seconds) { age = seconds; showAge(); }
  function showAge() {
    const element = $("#state .age");
    if (element) element.textContent = age < 100 ? `${age.toFixed(0)} s` : `${Math.round(age / 60)} min`;
  }
  setInterval(() => { if (!document.hidden) { age += 1; showAge(); } }, 1000);
  document.addEventListener("visibilitychange", follow);

  // --- a live tail: rows that the server sends, the newest first
  function tail(box) {
    let stream = null;
    const rows = $("[data-tail-rows]", box);
    const button = $("[data-tail-toggle]", box);
    const most = 200;
    const show = () => { box.dataset.state = stream ? "on" : "off"; button?.setAttribute("aria-pressed", String(!!stream)); };
    function start() {
      const form = $("form", box);
      const query = form ? new URLSearchParams(new FormData(form)).toString() : "";
      stream = new EventSource(`${box.dataset.tail}?${query}`);
      stream.addEventListener("rows", (event) => {
        const parsed = document.createElement("template");
        parsed.innerHTML = event.data;
        prepare(parsed.content);
        rows.prepend(parsed.content);
        while (rows.children.length > most) rows.lastElementChild.remove();
        $("[data-tail-empty]", box)?.remove();
      });
      stream.addEventListener("status", (event) => { $("[data-tail-status]", box).textContent = event.data; });
      stream.addEventListener("end", (event) => { stop(); toast(event.data, "bad"); });
      show();
    }
    function stop() { stream?.close(); stream = null; show(); }
    button?.addEventListener("click", () => (stream ? stop() : start()));
    $("form", box)?.addEventListener("submit", (event) => { event.preventDefault(); stop(); rows.replaceChildren(); start(); });
    if (box.dataset.tailStart !== undefined) start();
    addEventListener("pagehide", stop);
  }

  // --- notices
  function toast(text, tone) {
    const element = document.createElement("p");
    element.className = `toast ${tone}`;
    element.setAttribute("role", "alert");
    element.textContent = text;
    $("#toasts").append(element);
    setTimeout(() => element.remove(), 8000);
  }
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, elt } = event.detail;
    if (xhr.status < 400) return;
    event.detail.shouldSwap = false;
    const parsed = new DOMParser().parseFromString(xhr.responseText, "text/html");
    const text = $(".toast", parsed)?.textContent || `${xhr.status}`;
    const place = $(".form-error", elt.closest("form") || elt);
    if (!place) return toast(text, "bad");
    const element = document.createElement("p");
    element.className = "toast bad";
    element.setAttribute("role", "alert");
    element.textContent = text;
    place.replaceChildren(element);
  });
  document.addEventListener("htmx:sendError", () => toast(language === "zh" ? "无法连接服务器。" : "The server cannot be reached.", "bad"));
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-CSRF-Token"] = $("meta[name=csrf]").content;
  });
  document.addEventListener("htmx:afterSettle", (event) => prepare(event.target.isConnected ? event.target : document));
  document.addEventListener("htmx:pushedIntoHistory", follow);

  // --- dialogs, copying, the menu
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.open);
      if (dialog?.showModal) { $(".form-error", dialog)?.replaceChildren(); dialog.showModal(); $$("[data-load]", dialog).forEach((one) => window.htmx?.trigger(one, "opened")); }
    }
    if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
    if (event.target.tagName === "DIALOG") event.target.close();
    const copy = event.target.closest("[data-copy]");
    if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => { copy.textContent = "✓"; });
    const row = event.target.closest("tr[data-href]");
    if (row && !event.target.closest("a, button, input, label") && !String(getSelection())) location.href = row.dataset.href;
  });
  const side = $("#side");
  $("#burger")?.addEventListener("click", () => {
    $("#burger").setAttribute("aria-expanded", String(side.classList.toggle("open")));
    if (side.classList.contains("open")) $("a", side).focus();
  });
  document.addEventListener("click", (event) => {
    if (side?.classList.contains("open") && !event.target.closest("#side, #burger")) side.classList.remove("open");
  });
  document.addEventListener("change", (event) => { if (event.target.matches("[data-submit]")) event.target.form.requestSubmit(); });

  // --- dark and light
  $("#theme")?.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme === "dark" || (root.dataset.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = dark ? "light" : "dark";
    document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // --- keys
  let went = 0;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { side?.classList.remove("open"); if (event.target.matches("#find")) event.target.blur(); return; }
    if (event.target.matches("#find") && (event.key === "ArrowDown")) { $("#found a")?.focus(); event.preventDefault(); return; }
    if (event.target.closest("#found") && /^Arrow(Down|Up)$/.test(event.key)) {
      const links = $$("#found a");
      const next = links[links.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)];
      (next || $("#find")).focus();
      event.preventDefault();
      return;
    }
    if (event.target.matches("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    if (event.key === "/") { ($("[data-search]") || $("#find"))?.focus(); event.preventDefault(); return; }
    if (event.key === "?") { $("#help").showModal(); return; }
    if (event.key === "g" && Date.now() - went > 1200) { went = Date.now(); return; }
    if (Date.now() - went <= 1200) {
      went = 0;
      const link = $(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) location.href = link.href;
    }
  });

  function prepare(root) {
    showTimes(root);
    drawAll(root);
    $$("[data-zone]", root).forEach((input) => { input.value = new Date().getTimezoneOffset(); });
    $$("input[name=csrf]", root).forEach((input) => { input.value = $("meta[name=csrf]").content; });
    if (root !== document && window.htmx && root.nodeType === 1) window.htmx.process(root);
  }
  prepare(document);
  $$("[data-tail]").forEach(tail);
  setAge(parseFloat($("#state")?.dataset.age || "0"));
  follow();
})();
