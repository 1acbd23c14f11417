// Sharded calls on GPUs (fairdraw/cuda_sharded.h, fairdraw/cuda_sharded_speculation.h), for
// fairdraw/sharded.py.
#include "python/bindings/sharded_cuda.h"

#include <algorithm>
#include <cstddef>

#include "fairdraw/cuda_sharded.h"
#include "fairdraw/cuda_sharded_speculation.h"
#include "python/bindings/processing_argument.h"
#include "python/bindings/sample_arguments.h"
#include "python/bindings/speculation_arguments.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

/// A call whose exchanges go through memory of the ranks, or lie in the workspace, which the caller
/// has as an array.
template <class Call, class ExchangeOf>
class CallOnGpu {
 public:
  using Exchange = ExchangeOf;

  void send(Exchange exchange) {
    run_on_host([&] { return cuda::sharded_send(call_, exchange); });
  }
  void receive(Exchange exchange) {
    run_on_host([&] { return cuda::sharded_receive(call_, exchange); });
  }
  /// `memory`: the address of each shard's, as this process has it.
  void use_peers(const nb::list& memory, std::int64_t bytes, std::int64_t most_rows) {
    cuda::ShardedPeers peers;
    if (memory.size() > static_cast<std::size_t>(cuda::kMaxDeviceShards)) {
      throw_value_error(fmt::format("memory has {} addresses; allowed: 1 to {}", memory.size(),
                                    cuda::kMaxDeviceShards));
    }
    std::byte** next = peers.memory;
    for (const Handle address : memory) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has pointers as integers
      *next++ = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(address));
    }
    peers.bytes = bytes;
    peers.most_rows = most_rows;
    run_on_host([&] { return cuda::use_peers(call_, peers); });
  }
  void narrow_on(int rounds) {
    run_on_host([&] { return cuda::continue_sharded(call_, {.rounds = rounds}); });
  }
  /// Bytes from the workspace's beginning on.
  std::int64_t sent_at(Exchange exchange) const { return at(call_.send(exchange)); }
  std::int64_t received_at(Exchange exchange) const { return at(call_.receive(exchange)); }
  std::int64_t undecided_at() const { return at(call_.undecided()); }
  std::int64_t block_bytes(Exchange exchange) const { return call_.bytes(exchange); }

 protected:
  /// Checks the call, in a workspace that is allocated for it; the boundaries become its own.
  template <class Request, class Result>
  void make(std::vector<std::int64_t> boundaries, std::int32_t shard, const Place& place,
            Handle allocate, Request request, const Result& result) {
    boundaries_ = std::move(boundaries);
    place_ = place;
    if (!place_.on_cuda()) throw_type_error("rows are in host memory; ShardedCall is for those");
    request.boundaries = {boundaries_.data(), static_cast<std::int64_t>(boundaries_.size())};
    request.shard = shard;
    bring_workspace(place_, allocate, cuda::workspace_bytes(request, result));
    run_on_host([&] { return make_call(request, result, place_.cuda, call_); });
  }
  const Call& call() const { return call_; }

 private:
  static Error make_call(const ShardedRequest& request, const SampleResult& result,
                         const cuda::Execution& execution, cuda::ShardedCall& call) {
    return cuda::make_sharded_call(request, result, execution, call);
  }
  static Error make_call(const ShardedChainRequest& request, const VerifyChainResult& result,
                         const cuda::Execution& execution, cuda::ShardedChain& call) {
    return cuda::make_sharded_chain(request, result, execution, call);
  }
  static Error make_call(const ShardedChainSamplingRequest& request,
                         const ChainSpeculativeResult& result, const cuda::Execution& execution,
                         cuda::ShardedChain& call) {
    return cuda::make_sharded_chain_sampling(request, result, execution, call);
  }
  static Error make_call(const ShardedTreeRequest& request, const VerifyTreeResult& result,
                         const cuda::Execution& execution, cuda::ShardedChain& call) {
    return cuda::make_sharded_tree(request, result, execution, call);
  }
  std::int64_t at(const void* address) const {
    return static_cast<const std::byte*>(address) -
           static_cast<const std::byte*>(place_.cuda.workspace);
  }

  std::vector<std::int64_t> boundaries_;
  Place place_;
  Call call_;
};

/// What `sample` does.
class ShardedCudaCall : public CallOnGpu<cuda::ShardedCall, cuda::ShardedExchange> {
 public:
  ShardedCudaCall(const nb::list& boundaries, std::int32_t shard, TileInput input,
                  const SampleInputs& inputs, Handle processing, const SampleOutputs& outputs,
                  Handle allocate)
      : arguments_(inputs, outputs), processing_(processing, arguments_.place()) {
    ShardedRequest request;
    request.rows = arguments_.request;
    request.rows.processing = processing_.view;
    request.input = input;
    make(boundaries_of(boundaries), shard, arguments_.place(), allocate, request,
         arguments_.result);
  }
  /// After the exchanges of rows.
  nb::object last_exchanges() const { return nb::make_tuple(Exchange::ranks); }
  /// Through peers, all of it.
  void run(int rounds) const {
    run_on_host([&] { return cuda::sample_sharded(call(), {.rounds = rounds}); });
  }
  void finish() const {}

 private:
  SampleArguments arguments_;
  Processing processing_;
};

/// What calls of drafted tokens have alike.
class DraftsOnGpu : public CallOnGpu<cuda::ShardedChain, cuda::ChainExchange> {
 public:
  /// Of a tree one of them many times.
  nb::object last_exchanges() const {
    nb::list exchanges;
    for (int number = 2; number < call().exchanges(0); ++number) {
      exchanges.append(call().exchange(number, 0));
    }
    return exchanges;
  }
  void run(int rounds) const {
    run_on_host([&] { return cuda::verify_sharded(call(), {.rounds = rounds}); });
  }
  void finish() const {
    run_on_host([&] { return cuda::finish_sharded(call()); });
  }
};

/// What verify_chain does.
class ShardedCudaChain : public DraftsOnGpu {
 public:
  ShardedCudaChain(const nb::list& boundaries, std::int32_t shard, Handle target,
                   std::int64_t max_draft, Handle draft_tokens, Handle draft_lengths, Handle draft,
                   Handle tokens, Handle accepted, Handle statuses, Handle allocate)
      : arguments_(target, max_draft, draft_tokens, draft_lengths, draft, tokens, accepted,
                   statuses) {
    ShardedChainRequest request;
    request.chain = arguments_.request;
    make(boundaries_of(boundaries), shard, arguments_.place(), allocate, request,
         arguments_.result);
  }

 private:
  ChainArguments arguments_;
};

/// What verify_tree does.
class ShardedCudaTree : public DraftsOnGpu {
 public:
  ShardedCudaTree(const nb::list& boundaries, std::int32_t shard, Handle target,
                  std::int64_t max_draft, std::int64_t max_depth, Handle draft_tokens,
                  Handle parents, Handle draft_lengths, Handle draft, SiblingSampling siblings,
                  Handle tokens, Handle nodes, Handle accepted, Handle statuses, Handle allocate)
      : arguments_(target, max_draft, max_depth, draft_tokens, parents, draft_lengths, draft,
                   siblings, tokens, nodes, accepted, statuses) {
    ShardedTreeRequest request;
    request.tree = arguments_.request;
    make(boundaries_of(boundaries), shard, arguments_.place(), allocate, request,
         arguments_.result);
  }

 private:
  TreeArguments arguments_;
};

/// What chain_speculative_sampling does.
class ShardedCudaChainSampling : public DraftsOnGpu {
 public:
  ShardedCudaChainSampling(const nb::list& boundaries, std::int32_t shard, Handle draft_probs,
                           Handle draft_tokens, Handle target_probs, Handle seed, Handle offset,
                           Handle tokens, Handle accepted, Handle emitted, Handle statuses,
                           std::uint64_t stream, Handle allocate)
      : arguments_(draft_probs, draft_tokens, target_probs, seed, offset, tokens, accepted, emitted,
                   statuses, stream, nb::none()) {
    ShardedChainSamplingRequest request;
    request.chain = arguments_.request;
    make(boundaries_of(boundaries), shard, arguments_.place(), allocate, request,
         arguments_.result);
  }

 private:
  ChainSamplingArguments arguments_;
};

/// What Python sees of each.
template <class Call>
nb::class_<Call> bind_call(nb::module_& module, const char* name) {
  using Exchange = typename Call::Exchange;
  return nb::class_<Call>(module, name)
      .def("send", [](Call& call, Exchange exchange) { call.send(exchange); })
      .def("receive", [](Call& call, Exchange exchange) { call.receive(exchange); })
      .def("use_peers", [](Call& call, const nb::list& memory, std::int64_t bytes,
                           std::int64_t most_rows) { call.use_peers(memory, bytes, most_rows); })
      .def("run", &Call::run)
      .def("narrow_on", [](Call& call, int rounds) { call.narrow_on(rounds); })
      .def("finish", &Call::finish)
      .def("sent_at", [](const Call& call, Exchange exchange) { return call.sent_at(exchange); })
      .def("received_at",
           [](const Call& call, Exchange exchange) { return call.received_at(exchange); })
      .def("block_bytes",
           [](const Call& call, Exchange exchange) { return call.block_bytes(exchange); })
      .def_prop_ro("undecided_at", [](const Call& call) { return call.undecided_at(); })
      .def_prop_ro_static("exchange_kind", [](Handle) { return nb::type<Exchange>(); })
      .def_prop_ro("last_exchanges", [](const Call& call) { return call.last_exchanges(); });
}

/// The largest calls that a memory of peers is for.
struct PeerLimits {
  std::int64_t rows;
  std::int32_t samples;
  std::int32_t logprobs;  ///< -1: no reports
};

/// Calls that are asked for their size. Nothing of them runs, so their workspace serves as all of
/// their arrays.
class SizedCalls {
 public:
  SizedCalls(const nb::list& boundaries, std::int32_t shard, Handle allocate)
      : boundaries_(boundaries_of(boundaries)),
        shard_(shard),
        columns_(boundaries_.at(static_cast<std::size_t>(shard) + 1) -
                 boundaries_[static_cast<std::size_t>(shard)]),
        allocate_(allocate) {}

  /// Of filtered rows, with the reports that take most, which are raw ones of masked rows.
  std::int64_t of_samples(const PeerLimits& limits) const {
    const auto call_over = [&](void* memory) {
      const std::int64_t tokens = limits.rows * limits.samples;
      std::pair<ShardedRequest, SampleResult> call;
      auto& [request, result] = call;
      request.rows.logits = rows(memory, limits.rows);
      request.rows.top_p = 0.5F;
      request.rows.seed = std::uint64_t{0};
      request.rows.num_samples = limits.samples;
      result.tokens = {static_cast<std::int32_t*>(memory), tokens};
      if (limits.logprobs >= 0) {
        LogprobsResult& reports = result.logprobs;
        const std::int64_t listed = limits.rows * limits.logprobs;
        reports.mode = LogprobsMode::raw_logprobs;
        reports.top_n = limits.logprobs;
        reports.values = {static_cast<float*>(memory), tokens};
        reports.ranks = {static_cast<std::int32_t*>(memory), tokens};
        request.rows.allowed = {static_cast<const std::uint32_t*>(memory), limits.rows,
                                std::max<std::int64_t>((columns_ + 31) / 32, 1)};
        reports.top_ids = {static_cast<std::int32_t*>(memory), listed};
        reports.top_values = {static_cast<float*>(memory), listed};
      }
      return call;
    };
    return bytes_of(
        call_over, limits.rows,
        [](auto&... arguments) { return cuda::make_sharded_call(arguments...); },
        cuda::ShardedCall{});
  }

  /// Of a target of so many rows: trees, which have as many rows of the draft's logits.
  std::int64_t of_drafts(std::int64_t target_rows) const {
    const auto call_over = [&](void* memory) {
      std::pair<ShardedTreeRequest, VerifyTreeResult> call;
      VerifyTreeRequest& tree = call.first.tree;
      const View drafts{static_cast<const std::int32_t*>(memory), target_rows - 1};
      tree.target.logits = rows(memory, target_rows);
      tree.target.batch = 1;
      tree.target.filters.top_p = 0.5F;
      tree.target.seed = std::uint64_t{0};
      tree.max_draft = target_rows - 1;
      tree.max_depth = 1;
      tree.draft_tokens = tree.parents = drafts;
      tree.draft_law = DraftLaw::logits;
      tree.draft = rows(memory, target_rows);
      tree.draft_filters.top_p = 0.5F;
      call.second.tokens = {static_cast<std::int32_t*>(memory), 2};
      return call;
    };
    return bytes_of(
        call_over, target_rows,
        [](auto&... arguments) { return cuda::make_sharded_tree(arguments...); },
        cuda::ShardedChain{});
  }

 private:
  RowsView rows(const void* memory, std::int64_t count) const {
    return {memory, DType::float32, count, columns_, columns_};
  }

  template <class CallOver, class Make, class Call>
  std::int64_t bytes_of(const CallOver& call_over, std::int64_t most_rows, const Make& make,
                        Call call) const {
    static float nothing;  // asks for the size alone
    const auto in_shard = [&](void* memory) {
      auto made = call_over(memory);
      made.first.boundaries = {boundaries_.data(), static_cast<std::int64_t>(boundaries_.size())};
      made.first.shard = shard_;
      return made;
    };
    const auto [sized, sized_result] = in_shard(&nothing);
    Place place;
    place.device_type = nb::device::cuda::value;
    bring_workspace(place, allocate_, cuda::workspace_bytes(sized, sized_result));
    const auto [request, result] =
        in_shard(place.cuda.workspace == nullptr ? &nothing : place.cuda.workspace);
    run_on_host(
        [&, &asked = request, &wanted = result] { return make(asked, wanted, place.cuda, call); });
    return cuda::peer_bytes(call, most_rows);
  }

  std::vector<std::int64_t> boundaries_;
  std::int32_t shard_;
  std::int64_t columns_;
  Handle allocate_;
};

/// Bytes of each rank's memory that calls of up to so many rows, samples and reported tokens take,
/// and those of drafts over as many rows of the target, where there are such.
std::int64_t most_peer_bytes(const nb::list& boundaries, std::int32_t shard, std::int64_t most_rows,
                             std::int32_t most_samples, std::int32_t most_logprobs, bool drafts,
                             Handle allocate) {
  const SizedCalls calls(boundaries, shard, allocate);
  const std::int64_t of_samples = calls.of_samples({most_rows, most_samples, most_logprobs});
  return drafts ? std::max(of_samples, calls.of_drafts(most_rows)) : of_samples;
}

}  // namespace

void bind_sharded_on_gpu(nb::module_& module) {
  nb::enum_<cuda::ShardedExchange>(module, "ShardedExchange")
      .value("summary", cuda::ShardedExchange::summary)
      .value("threshold", cuda::ShardedExchange::threshold)
      .value("tokens", cuda::ShardedExchange::tokens)
      .value("ranks", cuda::ShardedExchange::ranks);
  nb::enum_<cuda::ChainExchange>(module, "ChainExchange")
      .value("summary", cuda::ChainExchange::summary)
      .value("threshold", cuda::ChainExchange::threshold)
      .value("tokens", cuda::ChainExchange::tokens)
      .value("weights", cuda::ChainExchange::weights)
      .value("left", cuda::ChainExchange::left)
      .value("last", cuda::ChainExchange::last);
  bind_call<ShardedCudaCall>(module, "ShardedCudaCall")
      .def(
          "__init__",
          [](ShardedCudaCall* self, const nb::list& boundaries, std::int32_t shard, TileInput input,
             Handle logits, Handle temperature, Handle top_k, Handle top_p, Handle min_p,
             Handle seed, Handle offset, Handle indices, std::int32_t num_samples, TieRule tie_rule,
             FilterOrder order, Purpose purpose, Handle allowed, Handle active, Handle processing,
             Handle tokens, Handle statuses, Handle support_size, Handle logprob,
             Handle logprob_filtered, Handle mask, Handle probs, Handle reports,
             std::uint64_t stream, Handle allocate) {
            new (self) ShardedCudaCall(
                boundaries, shard, input,
                {logits, temperature, top_k, top_p, min_p, seed, offset, indices, num_samples,
                 tie_rule, order, purpose, allowed, active, stream, nb::none()},
                processing,
                {tokens, statuses, support_size, logprob, logprob_filtered, mask, probs, reports},
                allocate);
          },
          nb::arg("boundaries"), nb::arg("shard"), nb::arg("input"), nb::arg("logits").none(),
          nb::arg("temperature").none(), nb::arg("top_k").none(), nb::arg("top_p").none(),
          nb::arg("min_p").none(), nb::arg("seed").none(), nb::arg("offset").none(),
          nb::arg("indices").none(), nb::arg("num_samples"), nb::arg("tie_rule"),
          nb::arg("filter_order"), nb::arg("purpose"), nb::arg("allowed").none(),
          nb::arg("active").none(), nb::arg("processing").none(), nb::arg("tokens").none(),
          nb::arg("statuses").none(), nb::arg("support_size").none(), nb::arg("logprob").none(),
          nb::arg("logprob_filtered").none(), nb::arg("mask").none(), nb::arg("probs").none(),
          nb::arg("reports").none(), nb::arg("stream"), nb::arg("allocate").none());
  bind_call<ShardedCudaChain>(module, "ShardedCudaChain")
      .def(nb::init<const nb::list&, std::int32_t, Handle, std::int64_t, Handle, Handle, Handle,
                    Handle, Handle, Handle, Handle>(),
           nb::arg("boundaries"), nb::arg("shard"), nb::arg("target"), nb::arg("max_draft"),
           nb::arg("draft_tokens").none(), nb::arg("draft_lengths").none(), nb::arg("draft"),
           nb::arg("tokens").none(), nb::arg("accepted").none(), nb::arg("statuses").none(),
           nb::arg("allocate"));
  bind_call<ShardedCudaTree>(module, "ShardedCudaTree")
      .def(nb::init<const nb::list&, std::int32_t, Handle, std::int64_t, std::int64_t, Handle,
                    Handle, Handle, Handle, SiblingSampling, Handle, Handle, Handle, Handle,
                    Handle>(),
           nb::arg("boundaries"), nb::arg("shard"), nb::arg("target"), nb::arg("max_draft"),
           nb::arg("max_depth"), nb::arg("draft_tokens").none(), nb::arg("parents").none(),
           nb::arg("draft_lengths").none(), nb::arg("draft"), nb::arg("siblings"),
           nb::arg("tokens").none(), nb::arg("nodes").none(), nb::arg("accepted").none(),
           nb::arg("statuses").none(), nb::arg("allocate"));
  bind_call<ShardedCudaChainSampling>(module, "ShardedCudaChainSampling")
      .def(nb::init<const nb::list&, std::int32_t, Handle, Handle, Handle, Handle, Handle, Handle,
                    Handle, Handle, Handle, std::uint64_t, Handle>(),
           nb::arg("boundaries"), nb::arg("shard"), nb::arg("draft_probs").none(),
           nb::arg("draft_tokens").none(), nb::arg("target_probs").none(), nb::arg("seed").none(),
           nb::arg("offset").none(), nb::arg("tokens").none(), nb::arg("accepted").none(),
           nb::arg("emitted").none(), nb::arg("statuses").none(), nb::arg("stream"),
           nb::arg("allocate"));
  module.def("sharded_peer_bytes", &most_peer_bytes, nb::arg("boundaries"), nb::arg("shard"),
             nb::arg("most_rows"), nb::arg("most_samples"), nb::arg("most_logprobs"),
             nb::arg("drafts"), nb::arg("allocate"));
}

}  // namespace fairdraw::python
