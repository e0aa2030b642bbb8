"""The style sheet of the page."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --panel: #f6f7f9; --line: #e3e6eb; --ink: #1b1f27;
  --soft: #626b7a; --grid: #eceef2; --hover: #f2f5fb; --focus: #2563c9;
  --connect: #b9c2d0; --await: #8fb8f0; --stream: #2563c9; --retry: #e0912f;
  --tool: #2b9a6a; --wait: #e3b93c; --stopped: #c4553b; --bad: #b3261e;
  --none: #c3c9d3; --run: #8a94a6; --cancel: #d0185c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #12151b; --panel: #1a1f28; --line: #2a313d; --ink: #e6e9ef;
    --soft: #98a2b3; --grid: #1f2530; --hover: #1b212c; --focus: #7aa7f5;
    --connect: #56606f; --await: #41699f; --stream: #6ea3f7; --retry: #e0a04f;
    --tool: #45bd88; --wait: #d8b446; --stopped: #e07a5f; --bad: #ef6a60;
    --none: #444c59; --run: #6d7788; --cancel: #ff5c97;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--ground);
  color: var(--ink); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif;
}
h1 { font-size: 1.15rem; margin: 0; font-weight: 650; }
h2 { font-size: .95rem; margin: 2rem 0 .5rem; font-weight: 650; }
h3 { font-size: .75rem; margin: .9rem 0 .25rem; color: var(--soft); font-weight: 600; }
header { display: flex; flex-wrap: wrap; gap: .4rem .8rem; align-items: baseline; }
.quiet { color: var(--soft); }
.badge {
  font-weight: 650; font-size: .8rem; padding: .1rem .55rem; border-radius: 1rem;
  color: var(--ground); background: var(--stopped);
}
.badge.good { background: var(--tool); }
.badge.cancelled { background: var(--cancel); }
.badge.running { background: var(--wait); }
.facts { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 1rem 0; padding: 0; }
.facts div { min-width: 4.5rem; }
.facts dt { font-size: .75rem; color: var(--soft); }
.facts dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.said {
  margin: .5rem 0; padding: .45rem .8rem; border-left: 3px solid var(--line);
  overflow-wrap: anywhere; white-space: pre-wrap; max-height: 9rem; overflow: auto;
}
.said.cancelled { border-color: var(--cancel); }
.said.error { border-color: var(--bad); }
.said.note { border-color: var(--wait); }
.legend {
  display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 1rem 0 .6rem; padding: 0;
  list-style: none; font-size: .78rem; color: var(--soft);
}
.legend li { display: flex; align-items: center; gap: .35rem; }
.chart { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
.axis, summary {
  display: grid; grid-template-columns: minmax(9rem, 24%) minmax(0, 1fr) 9.5rem;
  align-items: center; column-gap: .75rem; padding: 0 .75rem;
}
.axis { background: var(--panel); border-bottom: 1px solid var(--line); }
summary { cursor: pointer; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary:hover { background: var(--hover); }
summary:focus-visible { outline: 2px solid var(--focus); outline-offset: -2px; }
details[open] > summary { background: var(--hover); }
.label {
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-size: .85rem;
}
.label small { color: var(--soft); }
.label .where { border: 1px solid var(--line); border-radius: 3px; padding: 0 .25rem; }
.label::before {
  content: ""; display: inline-block; width: 0; height: 0; margin-right: .45rem;
  border: 4px solid transparent; border-left-color: var(--soft); border-right: 0;
}
details[open] > summary .label::before { transform: rotate(90deg); }
.run .label { font-weight: 650; }
.d1 .label { padding-left: .9rem; } .d2 .label { padding-left: 1.8rem; }
.d3 .label { padding-left: 2.7rem; } .d4 .label { padding-left: 3.6rem; }
.d5 .label { padding-left: 4.5rem; } .d6 .label { padding-left: 5.4rem; }
.took {
  text-align: right; font-size: .8rem; font-variant-numeric: tabular-nums;
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis;
}
.took em { font-style: normal; color: var(--stopped); }
.took em.calm { color: var(--soft); }
svg { display: block; width: 100%; overflow: visible; }
.swatch { width: 1.4rem; height: .7rem; flex: none; }
.axis text { font-size: 11px; fill: var(--soft); }
.names { font-size: 10px; fill: var(--ink); }
.axis text.flag { fill: var(--cancel); font-weight: 650; }
.grid { stroke: var(--grid); }
.cut { stroke: var(--cancel); stroke-width: 1.5; }
.connect { fill: var(--connect); } .await { fill: var(--await); }
.stream { fill: var(--stream); } .retry { fill: url(#back-off); }
rect.tool, .tool rect.tool { fill: var(--tool); } rect.wait { fill: var(--wait); }
rect.stopped { fill: var(--stopped); } rect.bad { fill: var(--bad); }
rect.none { fill: var(--none); } rect.run { fill: var(--run); }
rect.thread { fill: var(--panel); stroke: var(--line); }
rect.thread.odd { fill: var(--hover); stroke: var(--run); }
rect.late { fill: url(#late); }
.stripe { stroke: var(--ground); } .retry-ground { fill: var(--retry); }
.late-ground { fill: var(--cancel); }
circle { fill: var(--ground); stroke: var(--ink); }
.body {
  padding: .2rem 1rem 1rem; border-top: 1px solid var(--line);
  border-bottom: 1px solid var(--line); background: var(--panel);
}
pre {
  margin: 0; padding: .55rem .7rem; background: var(--ground); border-radius: 4px;
  border: 1px solid var(--line); overflow: auto; max-height: 22rem;
  white-space: pre-wrap; overflow-wrap: anywhere;
  font: 12px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
}
table { border-collapse: collapse; font-size: .8rem; }
td, th { text-align: left; padding: .1rem 1.2rem .1rem 0; font-weight: 400; }
td { font-variant-numeric: tabular-nums; }
th { color: var(--soft); }
.ends { border: 1px solid var(--line); border-radius: 6px; padding: .4rem 0; }
.ends > div {
  display: grid; grid-template-columns: minmax(9rem, 24%) minmax(0, 1fr) 9.5rem;
  column-gap: .75rem; padding: 0 .75rem; align-items: center;
}
.ends .label::before, .axis .label::before { display: none; }
footer { margin-top: 1.5rem; font-size: .75rem; color: var(--soft); }
@media (max-width: 640px) {
  body { padding: .9rem; }
  .facts { gap: .4rem 1.3rem; } .facts dd { font-size: 1rem; }
  .axis, summary, .ends > div { grid-template-columns: minmax(0, 1fr) auto; }
  .axis { padding-top: .3rem; }
  .axis svg, summary svg, .ends svg { grid-column: 1 / -1; grid-row: 2; }
  .axis .label, .axis .took { display: none; }
  summary { padding-top: .25rem; border-top: 1px solid var(--grid); }
  summary line { transform: scaleY(2.1); transform-box: fill-box; }
  summary line { transform-origin: 0 100%; }
}
@media print { details > .body { display: none; } body { max-width: none; } }
"""
