#include "tests/arguments/api_calls.h"

#include <optional>

#include "fairdraw/batch_state.h"
#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "fairdraw/cuda_kept_sets.h"
#include "fairdraw/cuda_stop_criteria.h"
#include "fairdraw/cuda_tile_index.h"
#include "fairdraw/cuda_watermark.h"
#include "fairdraw/fused_sampling_processor.h"
#include "fairdraw/tile_index.h"
#include "tests/arguments/api_arguments.h"

namespace fairdraw::suites {
namespace {

template <class Function, class... Arguments>
std::unique_ptr<ApiCall> call_of(std::shared_ptr<Arrays> arrays, const char* names,
                                 std::set<std::string> free, Function function,
                                 Arguments... arguments) {
  return std::make_unique<FunctionCall<Function, Arguments...>>(
      std::move(arrays), names, std::move(free), std::move(function), std::move(arguments)...);
}

// --- Functions that both backends have -----------------------------------------------------------

/// Adds the functions that CPU and GPU both have. The type of the execution selects the backend,
/// because name lookup also searches the namespace of that type.
template <class AnyExecution>
void add_calls_of_both(std::vector<ApiFunction>& all) {
  constexpr bool kCuda = std::is_same_v<AnyExecution, cuda::Execution>;
  const auto add = [&](const char* header, const char* name, const char* variant,
                       const auto& make) {
    // On CUDA, each serving call is declared in a header of its own, and the calls on rows in one
    // header.
    const std::string file = header;
    const bool of_serving =
        file == "beam_search.h" || file == "kept_sets.h" || file == "speculative.h";
    const std::string there = of_serving ? "cuda_" + file : "cuda.h";
    all.push_back({(kCuda ? there : file) + " " + name, variant,
                   [make] {
                     auto arrays = std::make_shared<Arrays>();
                     return make(arrays, *arrays);
                   },
                   kCuda});
  };
  // The size of a GPU's workspace is checked after the arguments.
  const std::set<std::string> workspace = {"execution.workspace_bytes"};
  AnyExecution how;
  if constexpr (!kCuda)
    how.threads = 1;  // with only two rows, starting a second thread takes
                      // longer than the call
  using Shared = std::shared_ptr<Arrays>;

  for (const bool by_mask : {false, true}) {
    const char* variant = by_mask ? "prompt as bits" : "prompt as lists";
    add("sample.h", "sample", variant, [=](const Shared& s, Arrays& a) {
      return call_of(
          s, ",result,execution", workspace, [](const auto&... x) { return sample(x...); },
          sample_request(a, by_mask), sample_result(a), how);
    });
    add("kept_sets.h", "sample_with_kept_sets", variant, [=](const Shared& s, Arrays& a) {
      return call_of(
          s, ",result,kept,execution", {"kept.token_ids", "execution.workspace_bytes"},
          [](const auto&... x) { return sample_with_kept_sets(x...); }, sample_request(a, by_mask),
          sample_result(a), kept_sets(a, kRows), how);
    });
    add("log_probabilities.h", "log_probabilities", variant, [=](const Shared& s, Arrays& a) {
      return call_of(
          s, ",token_ids,logprobs,statuses,execution", workspace,
          [](const auto&... x) { return log_probabilities(x...); }, sample_request(a, by_mask),
          a.in<std::int32_t>(kRows * kSamples, 1), logprobs_result(a), a.out<RowStatus>(kRows),
          how);
    });
    add("process_logits.h", "process_logits", variant, [=](const Shared& s, Arrays& a) {
      return call_of(
          s, ",result,execution", workspace, [](const auto&... x) { return process_logits(x...); },
          ProcessLogitsRequest{a.rows(kRows, kVocab), processing_of(a, kRows, by_mask),
                               a.bits<const std::uint32_t>(kRows, kVocab),
                               a.in<std::uint8_t>(kRows, 1)},
          ProcessLogitsResult{a.float_rows(kRows, kVocab), a.out<RowStatus>(kRows)}, how);
    });
  }

  const auto draw = [&](const char* name, const char* names, auto function, auto... parameters) {
    // Outputs name their rows by `indices`, so a call without per-row parameters may have more rows
    // than outputs.
    const std::set<std::string> free =
        sizeof...(parameters) > 0
            ? workspace
            : std::set<std::string>{"execution.workspace_bytes", "logits", "probs"};
    add("sampling.h", name, "", [=](const Shared& s, Arrays& a) {
      return call_of(s, names, free, function, a.rows(kRows, kVocab), parameters(a)...,
                     draw_options(a), draw_result(a), how);
    });
  };
  const auto write = [&](const char* name, const char* names, auto function, auto parameter) {
    add("sampling.h", name, "", [=](const Shared& s, Arrays& a) {
      return call_of(s, names, workspace, function, a.rows(kRows, kVocab), parameter(a),
                     a.float_rows(kRows, kVocab), a.out<RowStatus>(kRows), how);
    });
  };
  const auto top_k = [](Arrays& a) { return a.each<std::int32_t>(kRows, 5); };
  const auto share = [](Arrays& a) { return a.each(kRows, 0.9F); };
  const auto order = [](Arrays& a) { return a.each(kRows, FilterOrder::joint); };
  draw("sampling_from_logits", "logits,options,result,execution",
       [](const auto&... x) { return sampling_from_logits(x...); });
  draw("sampling_from_probs", "probs,options,result,execution",
       [](const auto&... x) { return sampling_from_probs(x...); });
  draw(
      "top_k_sampling_from_probs", "probs,top_k,options,result,execution",
      [](const auto&... x) { return top_k_sampling_from_probs(x...); }, top_k);
  draw(
      "top_p_sampling_from_probs", "probs,top_p,options,result,execution",
      [](const auto&... x) { return top_p_sampling_from_probs(x...); }, share);
  draw(
      "min_p_sampling_from_probs", "probs,min_p,options,result,execution",
      [](const auto&... x) { return min_p_sampling_from_probs(x...); }, share);
  draw(
      "top_k_top_p_sampling_from_logits",
      "logits,top_k,top_p,filter_order,options,result,execution",
      [](const auto&... x) { return top_k_top_p_sampling_from_logits(x...); }, top_k, share, order);
  draw(
      "top_k_top_p_sampling_from_probs", "probs,top_k,top_p,filter_order,options,result,execution",
      [](const auto&... x) { return top_k_top_p_sampling_from_probs(x...); }, top_k, share, order);
  write(
      "softmax", "logits,temperature,output,statuses,execution",
      [](const auto&... x) { return softmax(x...); }, share);
  write(
      "top_k_renorm_probs", "probs,top_k,output,statuses,execution",
      [](const auto&... x) { return top_k_renorm_probs(x...); }, top_k);
  write(
      "top_p_renorm_probs", "probs,top_p,output,statuses,execution",
      [](const auto&... x) { return top_p_renorm_probs(x...); }, share);
  add("sampling.h", "top_k_mask_logits", "", [=](const Shared& s, Arrays& a) {
    return call_of(
        s, "logits,top_k,masked,masked_row_stride,statuses,execution", workspace,
        [](const auto&... x) { return top_k_mask_logits(x...); }, a.rows(kRows, kVocab),
        a.each<std::int32_t>(kRows, 5), static_cast<void*>(a.block(kRows * kVocab, 77.0F)),
        std::int64_t{kVocab}, a.out<RowStatus>(kRows), how);
  });
  add("speculative.h", "chain_speculative_sampling", "", [=](const Shared& s, Arrays& a) {
    return call_of(
        s, ",result,execution", workspace,
        [](const auto&... x) { return chain_speculative_sampling(x...); },
        ChainSpeculativeRequest{a.rows(kRows, kVocab), a.in<std::int32_t>(kRows, 1),
                                a.rows(2 * kRows, kVocab), kRows, 1,
                                a.each<std::uint64_t>(kRows, 7), a.each<std::uint64_t>(kRows, 9)},
        ChainSpeculativeResult{a.out<std::int32_t>(2 * kRows), a.out<std::int32_t>(kRows),
                               a.out<std::int32_t>(kRows), a.out<RowStatus>(kRows)},
        how);
  });

  for (const bool is_packed : {false, true}) {
    const char* variant = is_packed ? "packed, prompt as bits" : "prompt as lists";
    const auto add_chain = [&](const char* name, auto function) {
      add("speculative.h", name, variant, [=](const Shared& s, Arrays& a) {
        return call_of(s, ",result,execution", workspace, function, chain_request(a, is_packed),
                       AcceptChainResult{a.out<std::int32_t>(2 * kRows), a.out<std::int32_t>(kRows),
                                         a.out<RowStatus>(kRows)},
                       how);
      });
    };
    add_chain("accept_chain", [](const auto&... x) { return accept_chain(x...); });
    add_chain("verify_chain", [](const auto&... x) { return verify_chain(x...); });

    const auto add_chain_with_kept_sets = [&](const char* name, auto function) {
      add("kept_sets.h", name, variant, [=](const Shared& s, Arrays& a) {
        return call_of(s, ",result,kept,execution", {"kept.token_ids", "execution.workspace_bytes"},
                       function, chain_request(a, is_packed),
                       AcceptChainResult{a.out<std::int32_t>(2 * kRows), a.out<std::int32_t>(kRows),
                                         a.out<RowStatus>(kRows)},
                       kept_sets(a, 2 * kRows), how);
      });
    };
    add_chain_with_kept_sets("accept_chain_with_kept_sets",
                             [](const auto&... x) { return accept_chain_with_kept_sets(x...); });
    add_chain_with_kept_sets("verify_chain_with_kept_sets",
                             [](const auto&... x) { return verify_chain_with_kept_sets(x...); });

    const auto add_tree_with_kept_sets = [&](const char* name, auto function) {
      add("kept_sets.h", name, variant, [=](const Shared& s, Arrays& a) {
        return call_of(s, ",result,kept,execution", {"kept.token_ids", "execution.workspace_bytes"},
                       function, tree_request(a, is_packed),
                       AcceptTreeResult{a.out<std::int32_t>(2 * kRows), a.out<std::int32_t>(kRows),
                                        a.out<std::int32_t>(kRows), a.out<RowStatus>(kRows)},
                       kept_sets(a, 2 * kRows), how);
      });
    };
    add_tree_with_kept_sets("accept_tree_with_kept_sets",
                            [](const auto&... x) { return accept_tree_with_kept_sets(x...); });
    add_tree_with_kept_sets("verify_tree_with_kept_sets",
                            [](const auto&... x) { return verify_tree_with_kept_sets(x...); });

    const auto add_tree = [&](const char* name, auto function) {
      add("speculative.h", name, variant, [=](const Shared& s, Arrays& a) {
        return call_of(s, ",result,execution", workspace, function, tree_request(a, is_packed),
                       AcceptTreeResult{a.out<std::int32_t>(2 * kRows), a.out<std::int32_t>(kRows),
                                        a.out<std::int32_t>(kRows), a.out<RowStatus>(kRows)},
                       how);
      });
    };
    add_tree("accept_tree", [](const auto&... x) { return accept_tree(x...); });
    add_tree("verify_tree", [](const auto&... x) { return verify_tree(x...); });
  }

  add("beam_search.h", "beam_search_step", "", [=](const Shared& s, Arrays& a) {
    // Requests name their rows, so that the matrix may have more rows.
    return call_of(
        s, ",result,execution", {"execution.workspace_bytes", "rows"},
        [](const auto&... x) { return beam_search_step(x...); }, beam_step(a, kCuda),
        beam_step_result(a), how);
  });
}

// --- The others ----------------------------------------------------------------------------------

template <class Make>
void add_call(std::vector<ApiFunction>& all, const char* declared, const Make& make,
              const char* variant = "") {
  all.push_back({declared, variant,
                 [make] {
                   auto arrays = std::make_shared<Arrays>();
                   return make(arrays, *arrays);
                 },
                 std::string(declared).rfind("cuda", 0) == 0});
}

void add_calls_of_serving(std::vector<ApiFunction>& all) {
  using Shared = std::shared_ptr<Arrays>;
  // A mask states its own number of rows.
  const auto masked = [](Arrays& a) {
    return KeptMask{a.bits<const std::uint32_t>(kRows, kVocab), kVocab, 3,
                    a.range<std::int32_t>(kRows, 0, 1), a.in<RowStatus>(kRows, RowStatus::ok)};
  };
  add_call(all, "kept_sets.h kept_sets_of_mask", [masked](const Shared& s, Arrays& a) {
    return call_of(
        s, ",kept", {"kept.token_ids", "mask"},
        [](const auto&... x) { return kept_sets_of_mask(x...); }, masked(a), kept_sets(a, kRows));
  });
  add_call(all, "cuda_kept_sets.h kept_sets_of_mask", [masked](const Shared& s, Arrays& a) {
    return call_of(
        s, ",kept,execution", {"kept.token_ids", "mask", "execution.workspace_bytes"},
        [](const auto&... x) { return cuda::kept_sets_of_mask(x...); }, masked(a),
        kept_sets(a, kRows), cuda::Execution{});
  });
  add_call(all, "beam_search.h beam_search_result", [](const Shared& s, Arrays& a) {
    return call_of(
        s, ",result", {}, [](const auto&... x) { return beam_search_result(x...); }, beam_end(a),
        beam_sequences(a));
  });
  add_call(all, "cuda_beam_result.h beam_search_result", [](const Shared& s, Arrays& a) {
    return call_of(
        s, ",result", {}, [](const auto&... x) { return cuda::beam_search_result(x...); },
        beam_end(a), beam_sequences(a));
  });
  add_call(all, "stop_criteria.h check_stop", [](const Shared& s, Arrays& a) {
    return call_of(
        s, ",result", {}, [](const auto&... x) { return check_stop(x...); }, stop_request(a),
        stop_result(a));
  });
  add_call(all, "cuda_stop_criteria.h check_stop", [](const Shared& s, Arrays& a) {
    return call_of(
        s, ",result", {}, [](const auto&... x) { return cuda::check_stop(x...); }, stop_request(a),
        stop_result(a));
  });
  add_call(all, "tile_index.h tile_index", [](const Shared& s, Arrays& a) {
    return call_of(
        s, ",result,execution", {}, [](const auto&... x) { return tile_index(x...); },
        tile_request(a), tile_result(a), Execution{CpuTarget::best, 1});
  });
  add_call(all, "cuda_tile_index.h tile_index", [](const Shared& s, Arrays& a) {
    return call_of(
        s, ",result", {}, [](const auto&... x) { return cuda::tile_index(x...); }, tile_request(a),
        tile_result(a));
  });
  for (const bool by_mask : {false, true}) {
    add_call(
        all, "sharded.h begin",
        [by_mask](const Shared& s, Arrays& a) {
          return call_of(
              // The number of shards follows from the number of boundaries; a flag has no invalid
              // value.
              s, ",result,execution", {"boundaries", "top_k_1_keeps_ties"},
              [](const auto&... x) {
                ShardedSample call;
                return call.begin(x...);
              },
              ShardedRequest{sharded_rows(a, by_mask), a.range<std::int64_t>(2, 0, kVocab), 0,
                             TileInput::logits, false, a.in<std::uint64_t>(kRows * kSamples, 7)},
              sample_result(a), Execution{CpuTarget::best, 1});
        },
        by_mask ? "prompt as bits" : "prompt as lists");
  }
  for (const bool by_mask : {false, true}) {
    const char* variant = by_mask ? "prompt as bits" : "prompt as lists";
    add_call(
        all, "watermark.h sample_marked",
        [by_mask](const Shared& s, Arrays& a) {
          return call_of(
              // A bias may be above 1, unlike a share.
              s, ",watermark,result,execution", {"watermark.green_bias"},
              [](const auto&... x) { return sample_marked(x...); }, marked_rows(a, by_mask),
              watermark_of(a), sample_result(a, kRows), Execution{CpuTarget::best, 1});
        },
        variant);
    add_call(
        all, "cuda_watermark.h sample_marked",
        [by_mask](const Shared& s, Arrays& a) {
          return call_of(
              s, ",watermark,result,execution",
              {"watermark.green_bias", "execution.workspace_bytes"},
              [](const auto&... x) { return cuda::sample_marked(x...); }, marked_rows(a, by_mask),
              watermark_of(a), sample_result(a, kRows), cuda::Execution{});
        },
        variant);
  }
  add_call(all, "watermark.h detect_watermark", [](const Shared& s, Arrays& a) {
    return call_of(
        // Nothing else says how many tokens and keys there are.
        s, ",", {"tokens", "keys"},
        [](const WatermarkText& text) {
          WatermarkEvidence evidence;
          return detect_watermark(text, evidence);
        },
        WatermarkText{a.in<std::int32_t>(kRows, 3), a.in<std::uint64_t>(kRows, 7), {}});
  });
  add_call(all, "parallel_sampling.h child_seeds", [](const Shared& s, Arrays& a) {
    return call_of(
        s, "seeds,n,children,rule", {}, [](const auto&... x) { return child_seeds(x...); },
        a.in<std::uint64_t>(kRows, 7), std::int32_t{2}, a.out<std::uint64_t>(2 * kRows),
        ChildSeedRule::threefry);
  });
  add_call(all, "mirostat.h mirostat_top_k", [](const Shared& s, Arrays& a) {
    return call_of(
        s, "largest,vocab", {},
        [](View<const float> largest, std::int64_t vocab) {
          std::int32_t top_k = 0;
          return mirostat_top_k({}, largest, vocab, top_k);
        },
        a.in(kRows, -1.0F), std::int64_t{kRows});
  });
  add_call(all, "parallel_sampling.h add_logprobs", [](const Shared& s, Arrays& a) {
    return call_of(
        s, "step,cumulative,statuses", {}, [](const auto&... x) { return add_logprobs(x...); },
        LogprobStep{a.in(2 * kRows, -1.0F), 2, a.in<std::int32_t>(kRows, 2)}, a.out<double>(kRows),
        a.out<RowStatus>(kRows));
  });
  add_call(all, "parallel_sampling.h best_of", [](const Shared& s, Arrays& a) {
    return call_of(
        s, ",result", {}, [](const auto&... x) { return best_of(x...); },
        BestOfRequest{kRows, 2, 1, a.in(2 * kRows, -1.0), a.in<std::int32_t>(2 * kRows, 3),
                      a.each(kRows, 1.0), a.in(2 * kRows, RowStatus::ok)},
        BestOfResult{a.out<std::int32_t>(kRows), a.out<double>(kRows), a.out<RowStatus>(kRows)});
  });
  add_call(all, "speculative.h parents_from_links", [](const Shared& s, Arrays& a) {
    return call_of(
        s, "next_token,next_sibling,batch,nodes,parents", {},
        [](const auto&... x) { return parents_from_links(x...); },
        a.in<std::int32_t>(2 * kRows, -1), a.in<std::int32_t>(2 * kRows, -1), std::int64_t{kRows},
        std::int64_t{2}, a.out<std::int32_t>(kRows));
  });
}

/// Returns a state of two slots with a request in the first.
std::shared_ptr<BatchState> two_slots() {
  BatchStateOptions options;
  options.vocab = kVocab;
  options.capacity = kRows;
  options.max_length = 8;
  std::unique_ptr<BatchState> state;
  BatchRequest request;
  request.prompt = {1, 2};
  if (BatchState::make(options, state) || state->add(5, request)) return nullptr;
  return state;
}

void add_calls_of_batches(std::vector<ApiFunction>& all) {
  using Shared = std::shared_ptr<Arrays>;
  add_call(all, "batch_state.h append", [](const Shared& s, Arrays& a) {
    const auto call = [state = two_slots()](const View<const std::int32_t>& tokens) {
      return state->append(5, tokens.data, tokens.size);
    };
    return call_of(s, "tokens", {"tokens"}, call, a.in<std::int32_t>(2, 3));
  });
  add_call(all, "batch_state.h append_step", [](const Shared& s, Arrays& a) {
    const auto call = [state = two_slots()](const View<const std::int32_t>& tokens) {
      return state->append_step(tokens);
    };
    return call_of(s, "tokens", {}, call, a.in<std::int32_t>(kRows, -1));
  });
  add_call(all, "batch_state.h set_allowed", [](const Shared& s, Arrays& a) {
    const auto call = [state = two_slots()](const BitRows<const std::uint32_t>& packed) {
      return state->set_allowed(packed);
    };
    return call_of(s, "packed", {}, call, a.bits<const std::uint32_t>(kRows, kVocab));
  });
  add_call(all, "batch_state.h sample_request", [](const Shared& s, Arrays& a) {
    // sample_request does not read the rows, but its result is passed to `sample`, which does.
    const auto call = [state = two_slots()](const RowsView& logits) {
      SampleRequest request;
      if (Error error = state->sample_request(logits, request)) return error;
      std::int32_t tokens[kRows];
      SampleResult result;
      result.tokens = {tokens, logits.rows};
      return sample(request, result);
    };
    return call_of(s, "logits", {}, call, a.rows(kRows, kVocab));
  });
  const auto steps = [&all](auto offset) {
    using Offset = decltype(offset);
    add_call(
        all, "fused_sampling_processor.h step",
        [](const Shared& s, Arrays& a) {
          const auto state = two_slots();
          const auto processor = std::make_shared<FusedSamplingProcessor>(*state);
          const auto call = [state, processor](const RowsView& logits, View<const Offset> offsets,
                                               StepRows rows) {
            return processor->step(logits, offsets, rows);
          };
          // Requests name their rows, so that the matrix may have more rows.
          return call_of(s, "logits,logit_offsets,rows", {"logits"}, call, a.rows(kRows, kVocab),
                         a.range<Offset>(kRows + 1, 0, 1), StepRows::last);
        },
        sizeof(Offset) == 8 ? "int64" : "uint32");
  };
  steps(std::int64_t{});
  steps(std::uint32_t{});
  add_call(all, "fused_sampling_processor.h step_processed", [](const Shared& s, Arrays& a) {
    const auto state = two_slots();
    const auto processor = std::make_shared<FusedSamplingProcessor>(*state);
    const auto call = [state, processor](const RowsView& rows) {
      return processor->step_processed(rows);
    };
    return call_of(s, "logits", {}, call, a.rows(kRows, kVocab));
  });
  add_call(all, "fused_sampling_processor.h logits_for_sampling", [](const Shared& s, Arrays& a) {
    const auto state = two_slots();
    const auto processor = std::make_shared<FusedSamplingProcessor>(*state);
    const auto call = [state, processor](const RowsView& logits, const FloatRows& processed,
                                         View<RowStatus> statuses) {
      return processor->logits_for_sampling(logits, processed, statuses);
    };
    return call_of(s, "logits,processed,statuses", {}, call, a.rows(kRows, kVocab),
                   a.float_rows(kRows, kVocab), a.out<RowStatus>(kRows));
  });
  add_call(all, "fused_sampling_processor.h update_bitmask", [](const Shared& s, Arrays& a) {
    const auto state = two_slots();
    const auto processor = std::make_shared<FusedSamplingProcessor>(*state);
    const auto call = [state, processor](const BitRows<const std::uint32_t>& packed) {
      return processor->update_bitmask(packed);
    };
    return call_of(s, "packed", {}, call, a.bits<const std::uint32_t>(kRows, kVocab));
  });
}

}  // namespace

std::vector<ApiFunction> api_functions() {
  std::vector<ApiFunction> all;
  add_calls_of_both<Execution>(all);
  add_calls_of_both<cuda::Execution>(all);
  add_calls_of_serving(all);
  add_calls_of_batches(all);
  return all;
}

}  // namespace fairdraw::suites
