"""HTML pages that need no other file: used by `report` and by the demo.

    page        document, sections, cards, tiles, tables
    page_style  the style sheet: light, dark and print
    charts      bars, rows, timelines, heat maps and sparklines as SVG
    wording     numbers, sizes, times and shares as people write them

A caller builds charts and tables, puts them into cards, cards into sections, and sections into a document. Every text
is escaped on the way; only what these functions return counts as HTML.
"""
