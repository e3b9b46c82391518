// What a run ends with: findings, a verdict per law, digests; as text, JSON, JUnit.
//
//   if (!run.ok()) std::puts(render_text(run.report, /*color=*/false).c_str());
#pragma once

#include "lockstep/compare/divergence.h"
#include "lockstep/laws/finding.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/wait_for.h"
