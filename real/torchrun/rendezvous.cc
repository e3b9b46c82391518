// Where ranks and launchers meet: torchrun's rendezvous, as far as a fixed number of machines needs it.
#include <algorithm>
#include <array>

#include "lockstep/base/text.h"
#include "lockstep/real/torchrun/detail/parts.h"

namespace lockstep::torchrun {

namespace {

constexpr std::int64_t kMostPort = 65535;
constexpr std::int64_t kDefaultPort = 29500;

struct Endpoint {
  std::string host;
  std::optional<std::int64_t> port;
};

Error bad_endpoint(const Words& words) {
  return Error{"--rdzv-endpoint '" + words.rdzv_endpoint +
                   "': it is HOST:PORT, with a port between 0 and 65535",
               {}};
}

/// "host", "host:29500" or "[::1]:29500".
Result<Endpoint> parse_endpoint(const Words& words) {
  const std::string& text = words.rdzv_endpoint;
  const std::size_t bracket = text.rfind(']');
  const std::size_t colon = text.rfind(':');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  Endpoint endpoint{.host = text.substr(0, has_port ? colon : text.size()), .port = std::nullopt};
  if (endpoint.host.empty()) return bad_endpoint(words);
  if (!has_port) return endpoint;
  endpoint.port = parse_int(std::string_view(text).substr(colon + 1));
  if (!endpoint.port || *endpoint.port < 0 || *endpoint.port > kMostPort) {
    return bad_endpoint(words);
  }
  return endpoint;
}

Outcome read_machines(const Words& words, Reading& to) {
  const std::vector<std::string_view> parts = split(words.nnodes, ':');
  const std::optional<std::int64_t> least = parse_int(parts.front());
  const std::optional<std::int64_t> most = parse_int(parts.back());
  if (parts.size() > 2 || !least || !most || *most > INT32_MAX) {
    return Error{"--nnodes: '" + words.nnodes + "' is not a number of machines; it is N or MIN:MAX",
                 {}};
  }
  if (*least < 1) return Error{"--nnodes is " + words.nnodes + "; it must be at least 1", {}};
  if (*least > *most) return Error{"--nnodes " + words.nnodes + ": MIN is above MAX", {}};
  if (*least < *most) {
    to.notices.push_back("--nnodes " + words.nnodes + ": the job has " + std::to_string(*least) +
                         " machine(s) from its start to its end; none joins or leaves it");
  }
  to.options.n_nodes = static_cast<std::int32_t>(*least);
  return success();
}

Outcome check_backend(const std::string& backend) {
  constexpr std::array<std::string_view, 4> kKnown = {"static", "c10d", "etcd", "etcd-v2"};
  if (backend == "static" || backend == "c10d") return success();
  if (backend == "etcd" || backend == "etcd-v2") {
    return Error{"--rdzv-backend " + backend +
                     ": this launcher does not support etcd; use static with --master-addr",
                 {}};
  }
  return Error{"--rdzv-backend: unknown value '" + backend + "'" +
                   alternatives(backend, kKnown, "the values are"),
               {}};
}

/// One KEY=VALUE of --rdzv-conf. Keys that do not apply are added to `unused`.
Outcome read_entry(const Words& words, std::string_view entry, Reading& to, std::string& unused) {
  const std::size_t equals = entry.find('=');
  const std::string_view key = trim(entry.substr(0, equals));
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : trim(entry.substr(equals + 1));
  if (key.empty() || value.empty()) {
    return Error{"--rdzv-conf " + words.rdzv_conf + ": it is a list of KEY=VALUE", {}};
  }
  if (key != "join_timeout" && key != "timeout") {
    unused += (unused.empty() ? "" : ", ") + std::string(key);
    return success();
  }
  const std::optional<std::int64_t> seconds = parse_int(value);
  if (!seconds || *seconds < 1) {
    return Error{"--rdzv-conf: " + std::string(key) + " is " + std::string(value) +
                     "; it is a number of seconds",
                 {}};
  }
  to.options.join_timeout = std::chrono::seconds(*seconds);
  return success();
}

/// "join_timeout=60,is_host=1".
Outcome read_configuration(const Words& words, Reading& to) {
  if (trim(words.rdzv_conf).empty()) return success();
  std::string unused;
  for (const std::string_view entry : split(words.rdzv_conf, ',')) {
    const Outcome read = read_entry(words, entry, to, unused);
    if (!read.ok()) return read;
  }
  if (!unused.empty()) {
    to.notices.push_back("--rdzv-conf: no effect of " + unused +
                         ": machines meet once, at the start, until join_timeout");
  }
  return success();
}

/// One machine whose ranks meet at any port: by --standalone, or since nothing names a place.
void read_alone(const Words& words, Reading& to) {
  to.options.any_port = true;
  to.options.master_addr = words.local_addr.empty() ? "localhost" : words.local_addr;
  to.options.run_id.clear();
  if (words.rdzv_id != "none") {
    to.notices.push_back("--rdzv-id " + words.rdzv_id +
                         " has no effect: without a port or an endpoint, as with --standalone, "
                         "torchrun gives a run a name of its own");
  }
  if (words.standalone && (!words.rdzv_endpoint.empty() || words.master_port)) {
    to.notices.emplace_back("--standalone: any free port is used, whatever other words say");
  }
}

/// As torchrun's c10d: the endpoint is where launchers meet, not where ranks do.
Outcome read_c10d(const Words& words, Reading& to) {
  launch::LaunchOptions& options = to.options;
  if (words.master_port) {
    to.notices.emplace_back("--master-port has no effect with --rdzv-backend c10d");
  }
  if (options.n_nodes == 1) {
    options.any_port = true;
    options.master_addr = words.local_addr.empty() ? "localhost" : words.local_addr;
    if (!words.rdzv_endpoint.empty()) {
      to.notices.push_back("--rdzv-endpoint " + words.rdzv_endpoint +
                           " has no effect: the launcher of one machine meets no other");
    }
    return success();
  }
  if (!words.node_rank) {
    return Error{
        "--rdzv-backend c10d with several machines: they are not numbered as they come; "
        "give each its --node-rank",
        {}};
  }
  const Result<Endpoint> endpoint = parse_endpoint(words);
  if (!endpoint.ok()) return endpoint.error();
  constexpr std::int64_t kC10dPort = 29400;
  const std::int64_t port = endpoint.value().port.value_or(kC10dPort);
  if (port < 1 || port >= kMostPort) return bad_endpoint(words);
  options.master_addr = endpoint.value().host;
  options.launcher_port = static_cast<std::int32_t>(port);
  options.master_port = static_cast<std::int32_t>(port + 1);
  to.notices.push_back("--rdzv-endpoint: launchers meet at port " + std::to_string(port) +
                       " of its host, and ranks at the port after it");
  return success();
}

Outcome read_static(const Words& words, Reading& to) {
  launch::LaunchOptions& options = to.options;
  std::int64_t port = words.master_port.value_or(kDefaultPort);
  options.master_addr = words.master_addr;
  if (!words.rdzv_endpoint.empty()) {
    const Result<Endpoint> endpoint = parse_endpoint(words);
    if (!endpoint.ok()) return endpoint.error();
    if (!endpoint.value().port) return bad_endpoint(words);
    options.master_addr = endpoint.value().host;
    port = *endpoint.value().port;
  }
  if (port < 0 || port > kMostPort) {
    return Error{"--master-port " + std::to_string(port) + "; a port is between 0 and 65535", {}};
  }
  options.master_port = static_cast<std::int32_t>(port);
  return success();
}

}  // namespace

Outcome read_place(const Words& words, Reading& to) {
  launch::LaunchOptions& options = to.options;
  if (Outcome machines = read_machines(words, to); !machines.ok()) return machines;
  if (Outcome backend = check_backend(words.rdzv_backend); !backend.ok()) return backend;
  if (Outcome read = read_configuration(words, to); !read.ok()) return read;
  constexpr std::int64_t kMost = INT32_MAX;
  options.node_rank =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(words.node_rank.value_or(0), -1, kMost));
  options.run_id = words.rdzv_id;
  if (words.master_port && (*words.master_port < 0 || *words.master_port > kMostPort)) {
    return Error{
        "--master-port " + std::to_string(*words.master_port) + "; a port is between 0 and 65535",
        {}};
  }
  const bool names_place = !words.rdzv_endpoint.empty() || words.master_port;
  const bool alone = words.rdzv_backend == "static" && !names_place && options.n_nodes == 1;
  if (std::string wrong = launch::complaint_about_run_id(options.run_id); !wrong.empty()) {
    return Error{wrong, {}};
  }
  if (words.standalone || alone) {
    read_alone(words, to);
    return success();
  }
  if (words.rdzv_backend == "c10d") return read_c10d(words, to);
  if (!words.local_addr.empty()) {
    to.notices.push_back("--local-addr " + words.local_addr +
                         " has no effect with a static rendezvous: ranks meet at --master-addr");
  }
  return read_static(words, to);
}

}  // namespace lockstep::torchrun
