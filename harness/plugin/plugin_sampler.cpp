#include "harness/plugin/plugin_sampler.h"

#include <fmt/format.h>
#include <omp.h>

#include <cstring>
#include <optional>
#include <utility>

#include "harness/contract/interruptible.h"
#include "harness/contract/usage_error.h"
#include "harness/plugin/call_kind.h"
#include "harness/plugin/float_state.h"

namespace fairdraw::harness::plugin {
namespace {

std::string path_of(const std::string& name) { return name.substr(std::string(kPrefix).size()); }

class PluginSampler : public Sampler {
 public:
  const SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override { return ask({kBatch, &batch}); }
  std::string run_operation(const fairdraw_operation& operation) override {
    return ask({kOperation, &operation});
  }
  std::string run_serving(const ServingCall& call) override { return ask(plugin_call(call)); }

  std::string broken() const override { return broken_; }
  void recover() override { broken_.clear(); }

 protected:
  explicit PluginSampler(SamplerDescription description) : description_(std::move(description)) {}

  virtual std::string ask(const PluginCall& call) = 0;

  std::string broken_;

 private:
  SamplerDescription description_;
};

/// A sampler that calls the plugin's library directly, in this process.
class TrustedSampler final : public PluginSampler {
 public:
  TrustedSampler(const std::string& name, SamplerDescription description)
      : PluginSampler(std::move(description)), library_(path_of(name)) {}

 private:
  std::string ask(const PluginCall& call) override {
    if (!broken_.empty()) return broken_;
    const unsigned before = float_traps(float_state());
    std::string refused = library_.run(call);
    const std::string unmasked = mask_new_traps(before);
    if (unmasked.empty()) return refused;
    broken_ = "the plugin " + unmasked;
    return broken_;
  }

  Library library_;
};

/// A sampler that calls the plugin's library in a process of its own.
class IsolatedSampler final : public PluginSampler, public Interruptible {
 public:
  IsolatedSampler(const std::string& name, std::shared_ptr<PluginFile> file, Description said,
                  SamplerDescription description, Options options)
      : PluginSampler(std::move(description)),
        path_(path_of(name)),
        file_(std::move(file)),
        said_(std::move(said)),
        options_(std::move(options)) {}

  std::pmr::memory_resource* memory() override { return &arrays(); }

  void end_calls_at(Process::Clock::time_point end) override { end_ = end; }

 private:
  SharedArrays& arrays() {
    if (!arrays_) arrays_.emplace();
    return *arrays_;
  }

  std::string ask(const PluginCall& call) override {
    if (!broken_.empty()) return broken_;
    if (!process_) {
      try {
        process_.emplace(path_, options_, arrays(), end_);
      } catch (const UsageError& error) {
        return give_up(error.what());  // it loaded before, so this failure is the sampler's
      }
      file_->expect_unchanged();  // checked before the plugin has answered anything
      if (process_->description() != said_) {
        return give_up("describes itself differently than before");
      }
    }
    const CallKind& kind = call_kind(call.kind);
    Command command;
    command.kind = call.kind;
    std::memcpy(command.call, call.call, kind.bytes);
    command.threads = omp_get_max_threads();
    command.floats = float_state();
    const std::variant<Answer, Ended> outcome = process_->ask(command, end_);
    if (const Ended* const end = std::get_if<Ended>(&outcome)) {
      const std::string place =
          end->address == 0 ? std::string() : place_of(end->address, kind.arrays(call.call));
      return give_up(end->how + place + end->printed);
    }
    const Answer& answer = std::get<Answer>(outcome);
    // This thread takes over the plugin's rounding and flush modes, as if the call had been made
    // here, but never its traps, because the judge's next operation might trap.
    take_float_modes(answer.floats);
    const std::string unmasked =
        unmasked_traps(float_traps(command.floats), float_traps(answer.floats));
    return unmasked.empty() ? text_of(answer) : give_up(unmasked);
  }

  // Returns a text about an address: " at address 0x..., 64 bytes past the start of tokens".
  std::string place_of(std::uint64_t address, const std::vector<NamedArray>& named) {
    std::string place = fmt::format(" at address {:#x}", address);
    const auto near = reinterpret_cast<std::uintptr_t>(arrays().array_near(address));
    if (near == 0) return place;
    for (const NamedArray& array : named) {
      const auto first = reinterpret_cast<std::uintptr_t>(array.first);
      // An array begins shortly after the start of its memory, because guard bytes precede its
      // first element.
      constexpr std::uintptr_t kGuardBytes = 256;
      if (first < near || first - near > kGuardBytes) continue;
      const bool past = address >= first;
      return fmt::format("{}, {} bytes {} the start of {}", place,
                         past ? address - first : first - address, past ? "past" : "before",
                         array.name);
    }
    return place;
  }

  std::string give_up(const std::string& how) {
    process_.reset();
    file_->expect_unchanged();  // a changed file may explain how the process ended
    broken_ = "the plugin " + how;
    return broken_;
  }

  std::string path_;
  std::shared_ptr<PluginFile> file_;
  Description said_;
  Options options_;
  std::optional<SharedArrays> arrays_;
  std::optional<Process> process_;
  Process::Clock::time_point end_ = Process::Clock::time_point::max();
};

}  // namespace

Description Loader::describe(const std::string& name) { return known(name).description; }

Loader::Known Loader::known(const std::string& name) {
  const std::string path = path_of(name);
  if (path.empty()) throw UsageError("--sampler: plugin: needs a path, as in plugin:./sampler.so");
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = known_.find(name);
  if (found != known_.end()) return found->second;
  Known of;
  of.file = std::make_shared<PluginFile>(path);
  if (options_.trusted) {
    of.description = Library(path).description();
  } else {
    const SharedArrays arrays;
    const Process process(path, options_, arrays, Process::Clock::time_point::max());
    of.description = process.description();
  }
  of.file->expect_unchanged();
  note_plugin_file(name, *of.file);
  known_.emplace(name, of);
  return of;
}

std::unique_ptr<Sampler> Loader::make(const std::string& name) {
  const auto [said, file] = known(name);
  SamplerDescription description = to_sampler_description(said, name);
  if (!options_.trusted) {
    return std::make_unique<IsolatedSampler>(name, file, said, std::move(description), options_);
  }
  auto sampler = std::make_unique<TrustedSampler>(name, std::move(description));
  file->expect_unchanged();
  return sampler;
}

}  // namespace fairdraw::harness::plugin
