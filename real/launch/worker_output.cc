#include "lockstep/real/launch/worker_output.h"

namespace lockstep::launch {

WorkerOutput::WorkerOutput(std::string prefix, std::ostream& terminal, const std::string& file)
    : prefix_(std::move(prefix)), terminal_(&terminal) {
  if (!file.empty()) file_.open(file, std::ios::binary | std::ios::app);
}

void WorkerOutput::write(std::string_view bytes) {
  if (file_.is_open()) file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return;
    *terminal_ << prefix_ << line_ << "\n";
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  terminal_->flush();
}

void WorkerOutput::finish() {
  if (!line_.empty()) *terminal_ << prefix_ << line_ << "\n" << std::flush;
  line_.clear();
  if (file_.is_open()) file_.flush();
}

}  // namespace lockstep::launch
