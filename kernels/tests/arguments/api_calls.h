// A valid call of each function of the public headers that takes arrays; every array is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/arguments/hostile_values.h"

namespace fairdraw::suites {

/// The arrays of a call, each in a memory block of its own, so that a sanitizer detects accesses
/// beyond its ends.
class Arrays {
 public:
  template <class T>
  T* block(std::int64_t count, T value) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    blocks_.push_back({std::make_unique<std::byte[]>(bytes), bytes});
    T* const data = reinterpret_cast<T*>(blocks_.back().data.get());
    for (std::int64_t i = 0; i < count; ++i) data[i] = value;
    return data;
  }
  template <class T>
  View<const T> in(std::int64_t count, T value) {
    return {block(count, value), count};
  }
  template <class T>
  View<T> out(std::int64_t count, T value = T{77}) {
    return {block(count, value), count};
  }
  template <class T>
  PerRequest<T> each(std::int64_t count, T value) {
    return {block(count, value), count};
  }
  /// Returns the array first, first + step, ...
  template <class T>
  View<const T> range(std::int64_t count, T first, T step) {
    T* const data = block(count, first);
    for (std::int64_t i = 1; i < count; ++i) data[i] = static_cast<T>(data[i - 1] + step);
    return {data, count};
  }
  RowsView rows(std::int64_t count, std::int64_t vocab) {
    return {block(count * vocab, 0.5F), DType::float32, count, vocab, vocab};
  }
  FloatRows float_rows(std::int64_t count, std::int64_t vocab) {
    return {block(count * vocab, 77.0F), count, vocab};
  }
  template <class Word>
  BitRows<Word> bits(std::int64_t count, std::int64_t vocab) {
    const std::int64_t words = (vocab + 31) / 32;
    return {block(count * words, ~std::uint32_t{0}), count, words};
  }
  template <class T>
  TileRows<T> tiles(std::int64_t count, std::int64_t vocab) {
    return {block(count * tiles_of(vocab), T{77}), count, tiles_of(vocab)};
  }
  /// Returns one list per row, each with one id.
  TokenLists lists(std::int64_t count, std::int32_t id) {
    return {block(count, id), count, range<std::int64_t>(count, 0, 1), in<std::int32_t>(count, 1)};
  }

  /// Returns the present contents of all arrays.
  std::vector<std::byte> contents() const {
    std::vector<std::byte> all;
    for (const Block& block : blocks_) {
      all.insert(all.end(), block.data.get(), block.data.get() + block.bytes);
    }
    return all;
  }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes;
  };
  std::vector<Block> blocks_;
};

/// One call, whose arguments a test may change before running it.
class ApiCall {
 public:
  virtual ~ApiCall() = default;
  virtual Error run() = 0;
  virtual Changes changes() = 0;
  std::vector<std::byte> contents() const { return arrays_->contents(); }

 protected:
  explicit ApiCall(std::shared_ptr<Arrays> arrays) : arrays_(std::move(arrays)) {}
  std::shared_ptr<Arrays> arrays_;
};

/// A call of one function with its arguments. `names` are the argument names, separated by commas.
/// An argument with an empty name is left out of the path, so that the path begins with a field of
/// the argument.
template <class Function, class... Arguments>
class FunctionCall final : public ApiCall {
 public:
  FunctionCall(std::shared_ptr<Arrays> arrays, std::string names, std::set<std::string> free,
               Function function, Arguments... arguments)
      : ApiCall(std::move(arrays)),
        names_(std::move(names)),
        free_(std::move(free)),
        function_(std::move(function)),
        arguments_(std::move(arguments)...) {}

  Error run() override { return std::apply(function_, arguments_); }
  Changes changes() override {
    Changes found(free_);
    std::apply([&](auto&... each) { found.collect_each("", names_, std::tie(each...)); },
               arguments_);
    return found;
  }

 private:
  std::string names_;
  std::set<std::string> free_;
  Function function_;
  std::tuple<Arguments...> arguments_;
};

/// A kind of call; `make` returns a new call of this kind.
struct ApiFunction {
  std::string declared;  ///< header and function name, for example "sample.h sample"
  std::string variant;   ///< difference from other calls of the function; empty if there is only
                         ///< one call
  std::function<std::unique_ptr<ApiCall>()> make;
  bool on_cuda = false;
};

/// Returns all functions, with one or more calls of each.
std::vector<ApiFunction> api_functions();

}  // namespace fairdraw::suites
