#include "lockstep/real/launch/failure_report.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::launch {

namespace {

std::string line_of(const WorkerFailure& failure) {
  std::string line = "rank " + std::to_string(failure.rank) + " (local rank " +
                     std::to_string(failure.local_rank) + ", pid " + std::to_string(failure.pid) +
                     ", attempt " + std::to_string(failure.attempt) +
                     "): " + status_text(failure.status);
  if (!failure.message.empty()) line += ": " + failure.message;
  return line + "\n";
}

}  // namespace

std::string read_error_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {};
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("message")) return {};
  const auto& message = json["message"];
  if (message.is_string()) return message.get<std::string>();
  if (message.is_object() && message.contains("message") && message["message"].is_string()) {
    return message["message"].get<std::string>();
  }
  return {};
}

std::string status_text(int status) {
  if (status >= 0) return "exit code " + std::to_string(status);
  const char* name = sigabbrev_np(-status);
  return "signal " + std::to_string(-status) +
         (name == nullptr ? std::string() : " (SIG" + std::string(name) + ")");
}

std::string render_failures(const std::vector<WorkerFailure>& failures,
                            const std::string& program,
                            std::int32_t max_restarts) {
  if (failures.empty()) return {};
  std::string text = program + " failed";
  if (max_restarts > 0) text += ", " + std::to_string(max_restarts) + " restarts included";
  text += "\n  first failure: " + line_of(failures.front());
  for (std::size_t i = 1; i < failures.size(); ++i)
    text += "  then:          " + line_of(failures[i]);
  return text;
}

}  // namespace lockstep::launch
