// The look of the page. Colours are variables, one set for light and one for dark surroundings;
// their hues stay apart for eyes that confuse red and green, and none of them says anything alone.
#include "lockstep/harness/report/detail/html.h"

namespace lockstep::page {

namespace {

constexpr std::string_view kColours = R"css(
:root{color-scheme:light dark;--paper:#fbfbf9;--panel:#fff;--ink:#1b2026;--muted:#59636e;--rule:#d8dcdf;
--link:#0b57a4;--good:#00684a;--good-soft:#e8f3ef;--bad:#9c330a;--bad-soft:#fcefe7;
--forward:#8dc3e6;--backward:#2b74b5;--update:#8c5fa8;--eval:#97a3ac;--save:#c7ccd1;--bucket:#d98f00;
--call:#74808b;--step:#98a2ab;--equal:#dde5ea;--one:#f6c79f;--few:#e0823f;--many:#97380c;--on-many:#fff;
--piece:#cfe1f0;--other:#e6eff7;--band:#cfe1f0;--late:#d5e6f5;--wait:#fbf0cf;--ended:#e6e8ea}
@media (prefers-color-scheme:dark){:root{--paper:#13171b;--panel:#1a2025;--ink:#e5e9ec;--muted:#a0abb5;
--rule:#353e46;--link:#86bdf2;--good:#63cba6;--good-soft:#16302a;--bad:#f2a474;--bad-soft:#38231a;
--forward:#6fb0dd;--backward:#3a80c1;--update:#b58dcd;--eval:#75818b;--save:#4d5861;--bucket:#e2a536;
--call:#8f9ba5;--step:#6d7983;--equal:#2a343c;--one:#7c4c28;--few:#bd6a33;--many:#f6a26d;--on-many:#13171b;
--piece:#27445f;--other:#1f3347;--band:#203a52;--late:#1f3a55;--wait:#40371b;--ended:#2c343b}})css";

constexpr std::string_view kText = R"css(
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
header,main,footer{max-width:1080px;margin:0 auto;padding:0 24px}
header{padding-top:20px}
h1{font-size:13px;font-weight:600;letter-spacing:.04em;color:var(--muted);margin:0}
h2{font-size:24px;line-height:1.25;margin:4px 0 12px}
h3{font-size:17px;margin:36px 0 8px;padding-top:12px;border-top:1px solid var(--rule)}
h4{font-size:14px;margin:18px 0 4px}
p{margin:6px 0}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:3px}
svg g:focus-visible{outline-offset:0}
.skip{position:absolute;left:-999px}
.skip:focus{left:12px;top:8px;background:var(--panel);padding:6px 12px;z-index:1}
code,pre,.sentence{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
code{overflow-wrap:anywhere}
pre{background:var(--panel);border:1px solid var(--rule);border-radius:6px;padding:10px 12px;overflow-x:auto;
white-space:pre-wrap})css";

constexpr std::string_view kVerdicts = R"css(
.run+.run{margin-top:64px;border-top:3px solid var(--rule);padding-top:24px}
.verdict{display:inline-block;font-weight:600;font-size:16px;padding:4px 14px;border-radius:6px;border:1px solid}
.verdict.good{color:var(--good);background:var(--good-soft)}
.verdict.bad{color:var(--bad);background:var(--bad-soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:8px 0}
dt{color:var(--muted)}
dd{margin:0;overflow-wrap:anywhere}
nav ul,.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;margin:10px 0}
.legend{font-size:13px;color:var(--muted);gap:2px 16px}
.legend svg{vertical-align:-2px;margin-right:6px}
.findings{padding:0;list-style:none;display:grid;gap:12px}
.finding{background:var(--panel);border:1px solid var(--rule);border-left:4px solid var(--bad);
border-radius:6px;padding:10px 16px}
.sentence{margin:0 0 6px;overflow-wrap:anywhere}
.calm,.thinned,.muted{color:var(--muted)}
.thinned{font-size:13px}
.alarm,.bad{color:var(--bad)}
.good{color:var(--good)}
.mark{display:inline-block;width:1.3em}
.scroll{overflow-x:auto;margin:8px 0})css";

constexpr std::string_view kTables = R"css(
table{border-collapse:collapse;font-size:13px;min-width:60%;background:var(--panel)}
caption{text-align:left;color:var(--muted);padding:4px 0}
th,td{text-align:left;vertical-align:top;padding:4px 12px 4px 8px;border-bottom:1px solid var(--rule)}
thead th{font-weight:600;color:var(--muted);border-bottom-width:2px}
tbody th{font-weight:500}
td{font-variant-numeric:tabular-nums}
td.number{text-align:right}
#overview td{white-space:nowrap}
tr[data-law] th,tr[data-law] td:nth-child(3){white-space:nowrap}
summary{cursor:pointer;color:var(--link);margin:8px 0}
footer{color:var(--muted);font-size:13px;margin-top:48px;padding-bottom:32px})css";

constexpr std::string_view kPictures = R"css(
svg{display:block;font:11px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.legend svg{display:inline-block}
svg text{fill:var(--ink)}
.tick{fill:var(--muted)!important;font-size:10px}
.middle,.count{text-anchor:middle}
.end{text-anchor:end}
.grid{stroke:var(--rule)}
.step{stroke:var(--step);stroke-width:2}
.t-forward{fill:var(--forward)}.t-backward{fill:var(--backward)}.t-update{fill:var(--update)}
.t-eval{fill:var(--eval)}.t-save{fill:var(--save)}.t-skipped{fill:none;stroke:var(--bad)}
.t-bucket{fill:var(--bucket)}.t-call{fill:var(--call)}
.blocks{stroke:var(--ink);stroke-width:1}
.failed{fill:var(--bad);stroke:var(--bad);stroke-dasharray:2 2}
.m-finding{fill:var(--bad);stroke:var(--paper)}
.m-fault{fill:var(--panel);stroke:var(--bad);stroke-width:2}
.m-quiet{fill:var(--muted)}
.equal{fill:var(--equal)}.one{fill:var(--one)}.few{fill:var(--few)}.many{fill:var(--many)}
.nothing{fill:none;stroke:var(--rule);stroke-dasharray:2 2}
.count{font-weight:600}
.many+.count{fill:var(--on-many)}
.mean{fill:none;stroke:var(--backward);stroke-width:2}
.band{fill:var(--band)}
.dot{fill:var(--backward)}
.piece{fill:var(--piece);stroke:var(--paper)}.piece.other{fill:var(--other)})css";

constexpr std::string_view kWaiting = R"css(
.wait-for .paper{fill:none}
.wait-for rect{stroke:var(--rule)}
.wait-for .waits{fill:var(--wait)}.wait-for .ended{fill:var(--ended)}
.wait-for .died{fill:var(--bad-soft)}.wait-for .running{fill:var(--late)}
.wait-for .arrow{stroke:var(--muted)}.wait-for .cycle{stroke:var(--bad)}
.wait-for marker path{fill:var(--muted)}
.wait-for .foot{fill:var(--muted)})css";

constexpr std::string_view kPrint = R"css(
@media print{.skip,nav{display:none}body{background:#fff}}
)css";

}  // namespace

std::string style_sheet() {
  std::string sheet;
  for (const std::string_view part :
       {kColours, kText, kVerdicts, kTables, kPictures, kWaiting, kPrint}) {
    sheet += part;
  }
  return sheet;
}

}  // namespace lockstep::page
