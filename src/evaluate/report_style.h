// The style sheet of a report's page: light and dark, wide and narrow, and on paper.
#pragma once

namespace contcore {

inline constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--back:#fff;--card:#f4f6f8;--text:#1b1f24;--faint:#57606a;--line:#d0d7de;
--link:#0a56a8;--good:#13693a;--bad:#b3261e;
--c0:#1f5fa8;--c1:#c2410c;--c2:#13783f;--c3:#8b3fc0;--c4:#7a5a00;--c5:#c0267e;--c6:#0b7285;--c7:#555}
@media (prefers-color-scheme:dark){:root{--back:#14171b;--card:#1e2329;--text:#e6e9ed;--faint:#a3acb7;
--line:#3a424c;--link:#7ab8ff;--good:#5fd38d;--bad:#ff8f85;
--c0:#6cb4ff;--c1:#ff9d5c;--c2:#5fd38d;--c3:#d09bff;--c4:#e0c04a;--c5:#ff86c3;--c6:#4fd0e0;--c7:#c0c0c0}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:84rem;padding:1rem;background:var(--back);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.25;margin:.5rem 0 1rem}
h2{font-size:1.3rem;margin:2.5rem 0 .5rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}
h3{font-size:1.05rem;margin:1.25rem 0 .5rem}
a{color:var(--link)}
p,.note{max-width:90ch}
.note,figcaption,caption,small{color:var(--faint)}
.note{font-size:.9rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:0}
dt{color:var(--faint)}dd{margin:0}
code{font:.9em ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap}
nav ul,.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}
.box{overflow-x:auto;max-width:100%;margin:.5rem 0 1rem}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}
caption{text-align:left;padding:.25rem 0;caption-side:top;white-space:nowrap}
.pair{display:flex;flex-wrap:wrap;gap:0 2.5rem}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
thead th{vertical-align:bottom;font-weight:600}
th.group{text-align:center}
tbody th{font-weight:600}
.main tbody th,.names tbody th,.names tfoot th,.main tr:first-child>th:first-child,
.names tr:first-child>th:first-child{text-align:left;position:sticky;left:0;background:var(--back);
white-space:normal;min-width:8.5rem;max-width:24rem}
.names thead th{white-space:normal;min-width:5.5rem;max-width:9rem}
.main small{display:block;font-weight:400}
.main td small,.names td small{display:inline}
.paper th,.paper td{color:var(--faint);font-style:italic;font-weight:400}
.paper th{padding-left:1.2rem}
tfoot th,tfoot td{border-top:2px solid var(--line)}
.matrix th,.matrix td{padding:.2rem .25rem;text-align:center;border:1px solid var(--back);font-size:.8rem;
min-width:2.45rem;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.matrix th:first-child{position:sticky;left:0;background:var(--back)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(28rem,100%),1fr));gap:1rem 2rem}
figure{margin:0}
.charts figure{max-width:36rem}
.charts svg{width:100%;height:auto;display:block;font-size:13px;fill:var(--text)}
svg .grid{stroke:var(--line);stroke-width:1}svg .axis{stroke:var(--faint);stroke-width:1;fill:none}
.legend svg{vertical-align:middle}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}
.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}
.s0 .m{fill:var(--c0)}.s1 .m{fill:var(--c1)}.s2 .m{fill:var(--c2)}.s3 .m{fill:var(--c3)}
.s4 .m{fill:var(--c4)}.s5 .m{fill:var(--c5)}.s6 .m{fill:var(--c6)}.s7 .m{fill:var(--c7)}
.m{stroke:none}
details{margin:.15rem 0}summary{cursor:pointer;color:var(--link);padding:.25rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(24rem,100%),1fr));gap:1rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.75rem;break-inside:avoid}
.views{display:grid;grid-template-columns:repeat(3,1fr);gap:.4rem}
.views figure{font-size:.8rem}
.views img,.blank{width:100%;height:auto;display:block;border-radius:4px}
.blank{aspect-ratio:1;border:1px dashed var(--line);display:grid;place-items:center;color:var(--faint);text-align:center}
.card p{margin:.5rem 0 0;font-size:.9rem}
.right{color:var(--good);font-weight:600}.wrong{color:var(--bad);font-weight:600}
@media (max-width:40rem){body{padding:.75rem}h1{font-size:1.35rem}dl{gap:.15rem .75rem}.main tbody th,.names tbody th{max-width:9.5rem}th,td{padding:.3rem .4rem}}
@media print{body{max-width:none;font-size:11px}nav{display:none}.box{overflow:visible}
.main tbody th,.names tbody th{position:static}
details::details-content{content-visibility:visible;block-size:auto}tr,figure{break-inside:avoid}}
)css";

}  // namespace contcore
