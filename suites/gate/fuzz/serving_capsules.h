// Capsules of logits processing and of requests with drafts: their part of the JSON, both ways.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "suites/gate/fuzz/fuzz_case.h"
#include "suites/gate/fuzz/strict_json.h"

namespace fairdraw::suites::fuzz {

/// One object a row.
Json processing_json(const std::vector<reference::RowProcessing>& rows);
std::vector<reference::RowProcessing> read_processing(Fields& fields, const std::string& key,
                                                      std::int64_t rows);

Json speculation_json(const FuzzCase& fuzz_case);
void read_speculation(Fields fields, FuzzCase& fuzz_case);

/// What the other kinds have too: values with their runs, filters, values that a dtype has.
Json runs(const std::vector<float>& values);
Json runs(const std::vector<double>& values);
Json runs(const std::vector<std::uint32_t>& values);
Json decimals(const std::vector<std::uint64_t>& values);
Json parameters_json(const std::vector<reference::RowParameters>& parameters);
std::vector<reference::RowParameters> read_parameters(Fields& fields, const std::string& key,
                                                      std::int64_t size);
void expect_dtype(const Fields& fields, const std::string& key, const std::vector<float>& values,
                  std::int64_t vocab, DType dtype);
/// a * b, both at most 2^22; complains of `place` where that is above `limit`.
std::int64_t bounded_product(const std::string& place, std::int64_t a, std::int64_t b,
                             std::int64_t limit);

template <class T>
Json plain(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T value : values) list.push_back(static_cast<std::int64_t>(value));
  return list;
}

}  // namespace fairdraw::suites::fuzz
