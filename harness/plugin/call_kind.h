// Lists the kinds of calls that a plugin takes: for each kind the symbol that the plugin exports,
// and how the call is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/adapters/device_arrays.h"
#include "harness/contract/call_arrays.h"
#include "harness/contract/sampler.h"
#include "harness/plugin/message.h"
#include "harness/plugin/shared_arrays.h"

namespace fairdraw::harness::plugin {

struct CallKind {
  const char* symbol;   ///< exported by plugins that declare this kind of call
  const char* lacking;  ///< message for a plugin that lacks the symbol
  bool (*declared)(const SamplerDescription&);
  std::size_t bytes;  ///< number of bytes of the call's struct
  std::vector<NamedArray> (*arrays)(const void* call);
  std::string (*ask)(void* function, const void* call, bool on_device);
};

/// A struct with the inputs of a call, and the number of the call's kind.
struct PluginCall {
  std::uint32_t kind;
  const void* call;
};

// The kinds of calls of the core; the kinds of calls of serving follow.
inline constexpr std::uint32_t kOperation = 0, kBatch = 1, kCoreKinds = 2;

std::uint32_t call_kinds();  ///< the number of kinds of calls
const CallKind& call_kind(std::uint32_t number);

// The file serving.cpp defines this function.
std::span<const CallKind> serving_kinds();
PluginCall plugin_call(const ServingCall& call);

/// A buffer for the message of a plugin that refuses a call.
using Message = std::array<char, 1024>;

/// Returns the message up to its terminating 0 or the end of the buffer, on one line.
std::string text_of(const Message& message);

template <class Call>
std::string ask_plugin(void* function, const void* given, bool on_the_device) {
  const auto& call = *static_cast<const Call*>(given);
  const auto refused_by = [function](const Call& asked) -> std::string {
    Message message{};
    auto* const ask = reinterpret_cast<std::int32_t (*)(const Call*, char*, std::size_t)>(function);
    if (ask(&asked, message.data(), message.size()) == 0) return {};
    const std::string text = text_of(message);
    // The text is never empty, because an empty string would mean that the call succeeded.
    return text.empty() ? "the plugin gives no reason" : text;
  };
  if (!on_the_device) return refused_by(call);
  std::string refused;
  const std::string trouble = on_device([&](DeviceState& state) -> Error {
    DeviceCall<Call> there(call);
    if (Error error = there.upload(state)) return error;
    keep_in_place(call, there.call());
    if (Error error = state.stream.synchronise()) return error;
    refused = refused_by(there.call());  // a refused call is no error of the device
    return there.download(state);
  });
  return refused.empty() ? trouble : refused;
}

template <class Call>
constexpr CallKind kind_of(const char* symbol, const char* lacking,
                           bool (*declared)(const SamplerDescription&)) {
  static_assert(sizeof(Call) <= sizeof(Command::call));
  static_assert(array_count<Call>() <= SharedArrays::kSlots);
  return {symbol,
          lacking,
          declared,
          sizeof(Call),
          [](const void* call) { return named_arrays(*static_cast<const Call*>(call)); },
          ask_plugin<Call>};
}

}  // namespace fairdraw::harness::plugin
