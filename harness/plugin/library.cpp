#include "harness/plugin/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/contract/usage_error.h"
#include "harness/plugin/call_kind.h"
#include "harness/plugin/one_line.h"

namespace fairdraw::harness::plugin {
namespace {

std::string bounded(const char* text) {
  constexpr std::size_t kMaxBytes = 400;  // four such texts fit into one message to the judge
  if (text == nullptr) return {};
  return on_one_line({text, strnlen(text, kMaxBytes)}).substr(0, kMaxBytes);
}

constexpr CallKind kCore[kCoreKinds] = {
    kind_of<fairdraw_operation>("fairdraw_plugin_run_operation", "has no operations on rows",
                                has_operations),
    kind_of<fairdraw_batch>("fairdraw_plugin_run", "draws no tokens",
                            [](const SamplerDescription& it) { return !has_operations(it); }),
};

}  // namespace

std::uint32_t call_kinds() {
  return kCoreKinds + static_cast<std::uint32_t>(serving_kinds().size());
}

const CallKind& call_kind(std::uint32_t number) {
  return number < kCoreKinds ? kCore[number] : serving_kinds()[number - kCoreKinds];
}

std::string text_of(const Message& message) {
  return on_one_line({message.data(), strnlen(message.data(), message.size())});
}

void expect_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw UsageError(fmt::format("plugin '{}': there is no such file", path));
  }
  if (std::filesystem::is_directory(path, error)) {
    throw UsageError(fmt::format("plugin '{}': is a folder, not a shared library", path));
  }
  // The file must be a regular file, because opening a pipe would block.
  if (!std::filesystem::is_regular_file(path, error)) {
    throw UsageError(fmt::format("plugin '{}': is no regular file", path));
  }
  if (!std::ifstream(path)) throw UsageError(fmt::format("plugin '{}': cannot be read", path));
}

Library::Library(const std::string& path) : path_(path) {
  expect_file(path);
  // The path is made absolute, because dlopen() would search for a name without a slash in the
  // system's library folders.
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
    // This call throws if the plugin's description is inconsistent.
    const SamplerDescription sampler = to_sampler_description(description_, path);
    for (std::uint32_t kind = 0; kind < call_kinds(); ++kind) {
      const CallKind& of = call_kind(kind);
      functions_.push_back(of.declared(sampler) ? needed_symbol(of.symbol) : nullptr);
    }
    // A plugin that has operations may lack fairdraw_plugin_run.
    if (has_operations(sampler)) functions_[kBatch] = symbol("fairdraw_plugin_run");
    description_.samples = functions_[kBatch] != nullptr;
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
  auto* const function = reinterpret_cast<decltype(fairdraw_plugin_describe)*>(
      needed_symbol("fairdraw_plugin_describe"));
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

std::string Library::run(const PluginCall& call) const {
  const CallKind& kind = call_kind(call.kind);
  void* const function = functions_[call.kind];
  if (function == nullptr) return kind.lacking;
  return kind.ask(function, call.call, description_.pointers == FAIRDRAW_DEVICE_POINTERS);
}

}  // namespace fairdraw::harness::plugin
