#include "harness/plugin/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/adapters/device_arrays.h"
#include "harness/contract/serving_arrays.h"
#include "harness/contract/usage_error.h"
#include "harness/plugin/one_line.h"

namespace fairdraw::harness::plugin {
namespace {

constexpr std::size_t kMessageBytes = 1024;
using Message = std::array<char, kMessageBytes>;

// What a plugin wrote, up to its 0 or the end of the buffer.
std::string text_of(const Message& message) {
  return on_one_line({message.data(), strnlen(message.data(), message.size())});
}

// Never empty: an empty string is what a call gives that ran.
std::string refusal(const std::string& text) {
  return text.empty() ? "the plugin gives no reason" : text;
}

std::string bounded(const char* text) {
  constexpr std::size_t kMaxBytes = 400;  // four of them fit into one message to the judge
  if (text == nullptr) return {};
  return on_one_line({text, strnlen(text, kMaxBytes)}).substr(0, kMaxBytes);
}

template <class Function>
Function* as_function(void* symbol) {
  return reinterpret_cast<Function*>(symbol);
}

}  // namespace

void expect_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw UsageError(fmt::format("plugin '{}': there is no such file", path));
  }
  if (std::filesystem::is_directory(path, error)) {
    throw UsageError(fmt::format("plugin '{}': is a folder, not a shared library", path));
  }
  // A pipe would keep whoever opens it waiting.
  if (!std::filesystem::is_regular_file(path, error)) {
    throw UsageError(fmt::format("plugin '{}': is no regular file", path));
  }
  if (!std::ifstream(path)) throw UsageError(fmt::format("plugin '{}': cannot be read", path));
}

Library::Library(const std::string& path) : path_(path) {
  expect_file(path);
  // A path without a slash would be looked for where the system keeps its libraries.
  handle_ = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps it for each thread
    const char* const reason = dlerror();
    throw UsageError(fmt::format("plugin '{}': is not a shared library that can be loaded here: {}",
                                 path,
                                 on_one_line(reason == nullptr ? "no reason given" : reason)));
  }
  try {
    const auto abi = *static_cast<const std::uint32_t*>(needed_symbol("fairdraw_plugin_abi"));
    if (abi != FAIRDRAW_PLUGIN_ABI) {
      throw UsageError(fmt::format(
          "plugin '{}': is built for version {} of the plugin ABI; this fairdraw has version {}",
          path, abi, FAIRDRAW_PLUGIN_ABI));
    }
    describe();
    // Refuses what it cannot mean.
    const SamplerDescription sampler = to_sampler_description(description_, path);
    if (has_operations(sampler)) {
      run_operation_ = as_function<decltype(fairdraw_plugin_run_operation)>(
          needed_symbol("fairdraw_plugin_run_operation"));
    }
    // One that has operations may have nothing else.
    void* const run = run_operation_ != nullptr ? symbol("fairdraw_plugin_run")
                                                : needed_symbol("fairdraw_plugin_run");
    run_ = as_function<decltype(fairdraw_plugin_run)>(run);
    description_.samples = run_ != nullptr;
    if ((description_.abilities & FAIRDRAW_CAN_CHAINS) != 0) {
      run_chain_ = as_function<decltype(fairdraw_plugin_run_chain)>(
          needed_symbol("fairdraw_plugin_run_chain"));
    }
    if ((description_.abilities & FAIRDRAW_CAN_VERIFY) != 0) {
      run_speculation_ = as_function<decltype(fairdraw_plugin_run_verification)>(
          needed_symbol("fairdraw_plugin_run_verification"));
    }
    if ((description_.abilities & FAIRDRAW_KEEPS_STATE) != 0) {
      run_event_ = as_function<decltype(fairdraw_plugin_run_event)>(
          needed_symbol("fairdraw_plugin_run_event"));
    }
  } catch (...) {
    dlclose(handle_);
    throw;
  }
}

Library::~Library() { dlclose(handle_); }

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

void* Library::needed_symbol(const char* name) const {
  if (void* const found = symbol(name)) return found;
  throw UsageError(fmt::format("plugin '{}': exports no symbol '{}'", path_, name));
}

void Library::describe() {
  const auto function =
      as_function<decltype(fairdraw_plugin_describe)>(needed_symbol("fairdraw_plugin_describe"));
  fairdraw_plugin_description raw{};
  raw.struct_size = sizeof(raw);
  Message message{};
  if (function(&raw, message.data(), message.size()) != 0) {
    throw UsageError(
        fmt::format("plugin '{}': does not describe itself: {}", path_, text_of(message)));
  }
  description_ = {
      bounded(raw.name), bounded(raw.version), bounded(raw.semantics), bounded(raw.overrides),
      raw.abilities,     raw.randomness,       raw.pointers,           true};
}

std::string Library::run(const fairdraw_batch& batch) {
  if (run_ == nullptr) return "draws no tokens";
  return ask(run_, batch);
}

std::string Library::run_chain(const fairdraw_chain& chain) {
  if (run_chain_ == nullptr) return "verifies no drafted chains";
  return ask(run_chain_, chain);
}

std::string Library::run_speculation(const fairdraw_verification& speculation) {
  if (run_speculation_ == nullptr) return "verifies no requests";
  return ask(run_speculation_, speculation);
}

std::string Library::run_event(const fairdraw_event& event) {
  if (run_event_ == nullptr) return "keeps no requests";
  return ask(run_event_, event);
}

std::string Library::run_operation(const fairdraw_operation& operation) {
  if (run_operation_ == nullptr) return "has no operations on rows";
  return ask(run_operation_, operation);
}

template <class Call>
std::string Library::ask(PluginFunction<Call>* function, const Call& call) const {
  const auto refused_by = [function](const Call& asked) -> std::string {
    Message message{};
    if (function(&asked, message.data(), message.size()) == 0) return {};
    return refusal(text_of(message));
  };
  if (description_.pointers != FAIRDRAW_DEVICE_POINTERS) return refused_by(call);
  std::string refused;
  const std::string trouble = on_device([&](DeviceState& state) -> Error {
    DeviceCall<Call> there(call);
    if (Error error = there.upload(state)) return error;
    keep_in_place(call, there.call());
    if (Error error = state.stream.synchronise()) return error;
    refused = refused_by(there.call());  // which is no error of the device
    return there.download(state);
  });
  return refused.empty() ? trouble : refused;
}

}  // namespace fairdraw::harness::plugin
