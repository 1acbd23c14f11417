// Hash by which ranks detect that their calls differ by mistake.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw::sharded {

/// Memory in which the arrays of parameters, seeds and lists are. Arrays on a device are not read:
/// a call with parameters on a device is treated as filtered, and the fingerprint covers everything
/// else.
enum class ArraysLie { on_host, on_device };

/// FNV-1a, 64 bits. The hash only has to detect mistakes, and not attacks.
class Fingerprint {
 public:
  explicit Fingerprint(ArraysLie arrays = ArraysLie::on_host)
      : reads_arrays_(arrays == ArraysLie::on_host) {}

  template <class T>
  void add(const T& value) {
    add_bytes(&value, sizeof(T));
  }
  template <class T>
  void add(const View<T>& view) {
    add(view.size);
    add(view.given());
    if (view.given() && reads_arrays_)
      add_bytes(view.data, static_cast<std::size_t>(view.size) * sizeof(T));
  }
  template <class T>
  void add(const PerRequest<T>& parameter) {
    parameter.is_array() ? add(parameter.values) : add(parameter.scalar);
  }
  void add(const TokenLists& lists) {
    add(lists.size);
    add(lists.begins);
    add(lists.lengths);
  }
  /// Adds all data of the logits processing to the hash, except for values that each column has.
  void add(const LogitsProcessing& processing) {
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) add(processing.name);
#include "fairdraw/processing_parameters.inc"
    for (const TokenLists* lists :
         {&processing.prompt, &processing.output, &processing.bias_ids, &processing.stop_ids,
          &processing.bad_words, &processing.bad_word_lengths, &processing.allowed_ids,
          &processing.forced_tokens, &processing.dry_breakers}) {
      add(*lists);
    }
    add(processing.output_lengths);
    add(processing.prompt_mask.given());
    add(processing.output_counts.given());
  }
  std::uint64_t value() const { return hash_; }

 private:
  void add_bytes(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001b3ULL;
  }
  bool reads_arrays_;
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace fairdraw::sharded
