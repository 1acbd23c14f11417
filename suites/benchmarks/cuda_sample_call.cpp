#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "fairdraw/cuda_kept_sets.h"
#include "fairdraw/cuda_watermark.h"
#include "fairdraw/sampling.h"
#include "suites/benchmarks/benchmark_processing.h"
#include "suites/benchmarks/cuda_calls.h"
#include "suites/benchmarks/cuda_floor.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kGenerated = 512;  // number of ids that the request of a marked row has
                                          // generated
constexpr std::uint64_t kFirstKey = 1;    // key of the first row of a marked call
constexpr std::int64_t kCheckedRows = 8;  // number of rows of a cell that are compared with the CPU

/// Runs the operation of fairdraw/sampling.h that has a request's filters; the type of `execution`
/// chooses CPU or GPU. Precondition: the request's rows are probabilities.
template <class Execution>
Error draw_from_probs(const SampleRequest& request, const SampleResult& result,
                      const reference::RowParameters& filters, const Execution& execution) {
  const RowsView& probs = request.logits;
  const DrawOptions options{request.seed, request.offset, request.indices, request.num_samples};
  const DrawResult drawn{result.tokens, result.statuses};
  if (filters.top_k > 0 && filters.top_p < 1) {
    return top_k_top_p_sampling_from_probs(probs, request.top_k, request.top_p,
                                           request.filter_order, options, drawn, execution);
  }
  if (filters.top_k > 0) {
    return top_k_sampling_from_probs(probs, request.top_k, options, drawn, execution);
  }
  if (filters.top_p < 1) {
    return top_p_sampling_from_probs(probs, request.top_p, options, drawn, execution);
  }
  if (filters.min_p > 0) {
    return min_p_sampling_from_probs(probs, request.min_p, options, drawn, execution);
  }
  return sampling_from_probs(probs, options, drawn, execution);
}

class SampleCall final : public CudaCall {
 public:
  SampleCall(const Operation& operation, const SampleForm& form, const DeviceRows& rows,
             std::int64_t batch, const std::string& processing, const cuda::Stream& stream)
      : CudaCall(stream),
        operation_(operation),
        form_(form),
        rows_(rows.host()),
        batch_(batch),
        processing_(make_processing(processing, rows_.batch, rows_.batch, rows_.vocab)) {
    inputs_ = rows.inputs(batch);
    on_cpu_ = request_of(operation);
    on_cpu_.offset = kFirstOffset;
    request_ = on_cpu_;
    request_.logits = rows.view(batch);
    make_processing(processing, batch, rows_.batch, rows_.vocab).give(request_, arrays_);
    if (form.by_arrays) {
      const auto each = [&](auto& parameter) {
        parameter = per_request(arrays_.view(repeated(batch, parameter.scalar)));
      };
      each(request_.temperature);
      each(request_.top_k);
      each(request_.top_p);
      each(request_.min_p);
      offsets_ = counted_from(kFirstOffset, batch);
      request_.seed = per_request(counted_from(1, batch));
      request_.offset = per_request(offsets_);
    }
    result_.tokens = arrays_.view(repeated(batch, std::int32_t{-1}));
    result_.statuses = make_statuses(batch);
    plain_ = result_;
    if (form.report.given()) {
      result_.logprobs = room_for(form.report, batch, arrays_);
      result_.logprobs.rank_rule = RankRule::at_least;  // vLLM's
    }
    if (form.kept_sets) {
      const std::int64_t room = batch * rows_.vocab;
      kept_ = {{arrays_.room<std::int32_t>(room), room},
               arrays_.view(repeated(batch + 1, std::int64_t{-1})),
               arrays_.view(repeated(batch, std::uint8_t{1}))};
    }
    marked_ = request_;
    if (form.marks.has_value()) {
      ids_.resize(static_cast<std::size_t>(kGenerated));
      std::iota(ids_.begin(), ids_.end(), 0);  // no context is repeated
      const auto length = static_cast<std::int32_t>(kGenerated);
      marked_.processing.output = {arrays_.in(ids_), kGenerated,
                                   read_only(arrays_.view(repeated(batch, std::int64_t{0}))),
                                   read_only(arrays_.view(repeated(batch, length)))};
      watermark_.key = per_request(counted_from(kFirstKey, batch));
      watermark_.rule.scheme = *form.marks;
    }
    reserve_workspace(form.marks.has_value() ? cuda::workspace_bytes(marked_, {}, watermark_)
                      : form.kept_sets       ? cuda::workspace_bytes(request_, {}, kept_)
                                             : cuda::workspace_bytes(request_, result_.logprobs));
  }

  void enqueue(cuda::Path path) const override {
    expect_success(form_.from_probs
                       ? draw_from_probs(request_, result_, operation_.parameters, execution(path))
                   : form_.marks.has_value()
                       ? cuda::sample_marked(marked_, watermark_, result_, execution(path))
                   : form_.kept_sets
                       ? cuda::sample_with_kept_sets(request_, result_, kept_, execution(path))
                       : cuda::sample(request_, result_, execution(path)),
                   "the call");
  }
  std::string base() const override {
    if (form_.report.given()) return call_name(operation_, "none");
    return form_.kept_sets || form_.marks.has_value() ? "sample" : "";
  }
  void enqueue_base(cuda::Path path) const override {
    expect_success(cuda::sample(request_, plain_, execution(path)), "the plain call");
  }

  /// Advances every row's offset in device memory.
  void advance() const override {
    if (!form_.by_arrays) return;
    expect_success(advance_offsets(offsets_.data, batch_, handle(stream_)), "new offsets");
  }

  std::string trouble() const override {
    if (std::string trouble = CudaCall::trouble(); !trouble.empty()) return trouble;
    const std::vector<std::int32_t> tokens = arrays_.download(result_.tokens);
    const std::vector<std::uint64_t> offsets = arrays_.download(offsets_);
    const std::int64_t checked = std::min(batch_, kCheckedRows);
    for (std::int64_t i = 0; i < checked; ++i) {
      // With one seed per call, a token depends on the index of its row, so only the first rows are
      // checked.
      const bool spread = form_.by_arrays && checked > 1;
      const std::int64_t row = spread ? i * (batch_ - 1) / (checked - 1) : i;
      const auto at = static_cast<std::size_t>(row);
      const std::int32_t expected = form_.marks.has_value()
                                        ? cpu_marked_token(row, offsets[at])
                                        : cpu_token(row, form_.by_arrays ? &offsets[at] : nullptr);
      if (tokens[at] != expected) {
        return fmt::format("row {} has token {}, on the CPU {}", row, tokens[at], expected);
      }
      if (form_.kept_sets && kept_set(row) != cpu_set(row)) {
        return fmt::format("row {} has another kept set than on the CPU", row);
      }
    }
    return {};
  }

 private:
  /// Returns the request of the same call for rows that are on the host. `indices` and `arrays`
  /// must outlive the request.
  SampleRequest on_cpu(const std::vector<std::int32_t>& indices,
                       harness::HostArrays& arrays) const {
    SampleRequest request = on_cpu_;
    request.logits = rows_.view();
    processing_.give(request, arrays);
    request.indices = {indices.data(), static_cast<std::int64_t>(indices.size())};
    return request;
  }

  std::int32_t cpu_token(std::int64_t row, const std::uint64_t* offset) const {
    // With a scalar seed, a draw depends on the output's index. So the call has outputs up to this
    // row, and its last token is compared.
    const std::int64_t outputs = form_.by_arrays ? 1 : row + 1;
    const std::uint64_t seed = 1 + static_cast<std::uint64_t>(row);
    std::vector<std::int32_t> indices = repeated(outputs, std::int32_t{0}), tokens = indices;
    indices.back() = static_cast<std::int32_t>(row % rows_.batch);
    harness::HostArrays arrays;
    SampleRequest request = on_cpu(indices, arrays);
    if (form_.by_arrays) {
      request.seed = {&seed, 1};
      request.offset = {offset, 1};
    }
    SampleResult result;
    result.tokens = {tokens.data(), outputs};
    expect_success(form_.from_probs
                       ? draw_from_probs(request, result, operation_.parameters, Execution{})
                       : sample(request, result),
                   "the CPU's token");
    return tokens.back();
  }

  std::int32_t cpu_marked_token(std::int64_t row, std::uint64_t offset) const {
    const std::int64_t begin = 0;
    const auto length = static_cast<std::int32_t>(kGenerated);
    SampleRequest request = on_cpu_;
    request.logits = rows_.view();
    request.logits.rows = 1;
    request.logits.data = rows_.values.data() + row % rows_.batch * rows_.vocab;
    request.processing.output = {ids_.data(), kGenerated, {&begin, 1}, {&length, 1}};
    request.seed = 1 + static_cast<std::uint64_t>(row);
    request.offset = offset;
    Watermark watermark;
    watermark.rule.scheme = watermark_.rule.scheme;
    watermark.key = kFirstKey + static_cast<std::uint64_t>(row);
    std::int32_t token = -1;
    SampleResult result;
    result.tokens = {&token, 1};
    expect_success(sample_marked(request, watermark, result), "the CPU's marked token");
    return token;
  }

  std::vector<std::int32_t> cpu_set(std::int64_t row) const {
    const std::vector<std::int32_t> indices = {static_cast<std::int32_t>(row % rows_.batch)};
    std::vector<std::int32_t> ids(static_cast<std::size_t>(rows_.vocab));
    std::vector<std::int64_t> offsets(2);
    std::int32_t token = 0;
    harness::HostArrays arrays;
    SampleResult result;
    result.tokens = {&token, 1};
    expect_success(sample_with_kept_sets(on_cpu(indices, arrays), result,
                                         {{ids.data(), rows_.vocab}, {offsets.data(), 2}, {}}),
                   "the CPU's kept set");
    ids.resize(static_cast<std::size_t>(offsets[1]));
    return ids;
  }

  std::vector<std::int32_t> kept_set(std::int64_t row) const {
    const std::vector<std::int64_t> ends = arrays_.download(kept_.offsets.data + row, 2);
    return arrays_.download(kept_.token_ids.data + ends[0], ends[1] - ends[0]);
  }

  Operation operation_;
  SampleForm form_;
  const Rows& rows_;  ///< of the host
  std::int64_t batch_;
  BatchProcessing processing_;  ///< logits processing of the rows on the host
  SampleRequest on_cpu_;        ///< the call for the CPU without rows and processing; every
                                ///< parameter is one scalar
  SampleRequest request_;
  SampleResult result_, plain_;  ///< result of the call; plain_ is the same result without a report
  View<std::uint64_t> offsets_;  ///< offsets on the device, if each row has one
  KeptSets kept_;
  SampleRequest marked_;           ///< the request with the ids that each request has generated
  std::vector<std::int32_t> ids_;  ///< the same for all rows
  Watermark watermark_;
};

}  // namespace

MakeCall sample_call(const Operation& operation, const SampleForm& form) {
  return [=](const DeviceRows& rows, std::int64_t batch, const std::string& processing,
             const cuda::Stream& stream) {
    return std::make_unique<SampleCall>(operation, form, rows, batch, processing, stream);
  };
}

}  // namespace fairdraw::suites
