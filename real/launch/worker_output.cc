#include "lockstep/real/launch/worker_output.h"

#include <algorithm>

namespace lockstep::launch {

WorkerOutput::WorkerOutput(std::string prefix,
                           std::ostream* terminal,
                           const std::string& file,
                           std::shared_ptr<Duplicates> duplicates)
    : prefix_(std::move(prefix)), terminal_(terminal), duplicates_(std::move(duplicates)) {
  if (!file.empty()) file_.open(file, std::ios::binary | std::ios::app);
}

void WorkerOutput::write(std::string_view bytes) {
  if (file_.is_open()) file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (terminal_ == nullptr) return;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return;
    show_line();
    bytes.remove_prefix(end + 1);
  }
  terminal_->flush();
}

void WorkerOutput::finish() {
  if (!line_.empty()) show_line();
  if (terminal_ != nullptr) terminal_->flush();
  if (file_.is_open()) file_.flush();
}

void WorkerOutput::show_line() {
  *terminal_ << prefix_ << line_ << "\n";
  if (duplicates_) {
    const auto& texts = duplicates_->texts;
    const bool meant = std::any_of(texts.begin(), texts.end(), [this](const std::string& text) {
      return line_.find(text) != std::string::npos;
    });
    if (meant) duplicates_->file << prefix_ << line_ << "\n" << std::flush;
  }
  line_.clear();
}

}  // namespace lockstep::launch
