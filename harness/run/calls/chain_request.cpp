#include "harness/run/calls/chain_request.h"

#include "harness/contract/serving.h"
#include "harness/contract/serving_arrays.h"
#include "harness/run/calls/request_arrays.h"

namespace fairdraw::harness {

ChainResponse run_chain_request(Sampler& sampler, const ChainRequest& request) {
  ChainResponse response;
  if (broke(sampler, response)) return response;
  fairdraw_chain chain{};
  chain.struct_size = sizeof(chain);
  chain.dtype = static_cast<std::uint32_t>(request.dtype);
  chain.batch = request.batch;
  chain.num_draft_tokens = request.num_draft_tokens;
  chain.vocab = request.vocab;
  chain.seed_is_scalar = request.seed_is_scalar ? 1 : 0;

  const struct {
    Encoded draft_probs, target_probs;
  } prepared{{request.dtype, request.draft_probs}, {request.dtype, request.target_probs}};
  const struct {
    bool tokens, accepted, emitted, statuses;
  } room{true, request.counts, request.counts,
         request.counts && sampler.description().reports_status};
  PlacedArrays arrays(sampler.memory());
  place_arrays(arrays, chain, prepared, request, room, response);
  answer_call(sampler, arrays, response, [&] { return sampler.run_serving({&chain}); });
  return response;
}

}  // namespace fairdraw::harness
