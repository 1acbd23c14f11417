#include "python/bindings/speculation_arguments.h"

#include <fmt/format.h>

namespace fairdraw::python {

DraftedArguments::DraftedArguments(nb::handle target, std::int64_t max_draft,
                                   std::int64_t max_depth, nb::handle draft_tokens,
                                   nb::handle parents, nb::handle draft_lengths, nb::handle draft,
                                   SiblingSampling siblings, nb::handle tokens, nb::handle nodes,
                                   nb::handle accepted, nb::handle statuses)
    : is_chain(parents.is_none()),
      target_(target),
      ids_("draft_token_ids", draft_tokens, place()),
      parents_("parents", parents, place()),
      lengths_("draft_lengths", draft_lengths, place()),
      draft_(draft, target_.axes(), place()),
      tokens_("tokens", tokens, target_.view.batch * (max_depth + 1), place()),
      nodes_("nodes", nodes, target_.view.batch * max_depth, place()),
      accepted_("accepted", accepted, target_.view.batch, place()),
      statuses_("statuses", statuses, target_.view.batch, place()) {
  request.target = target_.view;
  request.max_draft = max_draft;
  request.max_depth = max_depth;
  request.draft_tokens = ids_.view;
  request.parents = parents_.view;
  request.draft_lengths = lengths_.view;
  draft_.into(request);
  request.siblings = siblings;
  result = {tokens_.view, nodes_.view, accepted_.view, statuses_.view};
}

ChainSamplingArguments::ChainSamplingArguments(nb::handle draft_probs, nb::handle draft_tokens,
                                               nb::handle target_probs, nb::handle seed,
                                               nb::handle offset, nb::handle tokens,
                                               nb::handle accepted, nb::handle emitted,
                                               nb::handle statuses, std::uint64_t stream,
                                               nb::handle workspace)
    : target_(rows_of("target_probs", target_probs, 3)),
      draft_(rows_of("draft_probs", draft_probs, 3)),
      place_(place_of(target_.array, stream, workspace)) {
  if (draft_.array.device_type() != place_.device_type ||
      draft_.array.device_id() != place_.device_id) {
    throw_value_error(fmt::format("draft_probs is on {}; target_probs is on {}",
                                  device_name(draft_.array.device_type(), draft_.array.device_id()),
                                  device_name(place_.device_type, place_.device_id)));
  }
  ids_ = input_array("draft_token_ids", draft_tokens, &place_);
  const std::int64_t batch = draft_.batch;
  const std::int64_t n = draft_.positions;
  if (ids_.dtype() != nb::dtype<std::int32_t>() || ids_.ndim() != 2) {
    throw_type_error(
        fmt::format("draft_token_ids holds {} along {} axes; int32 [batch, n] is "
                    "needed",
                    dtype_name(ids_.dtype()), ids_.ndim()));
  }
  const auto axis = [this](std::size_t i) { return static_cast<std::int64_t>(ids_.shape(i)); };
  const bool contiguous = ids_.size() <= 1 || ((axis(1) <= 1 || ids_.stride(1) == 1) &&
                                               (axis(0) <= 1 || ids_.stride(0) == axis(1)));
  if (axis(0) != batch || axis(1) != n || !contiguous) {
    throw_value_error(fmt::format("draft_token_ids is [{}, {}]; [{}, {}] is needed, contiguous",
                                  axis(0), axis(1), batch, n));
  }
  if (target_.batch != batch || target_.positions != n + 1) {
    throw_value_error(
        fmt::format("target_probs has {} positions of {} requests; {} of {} are "
                    "needed (one more than drafted)",
                    target_.positions, target_.batch, n + 1, batch));
  }
  options_.emplace(seed, offset, nb::none(), 1, place_);
  request.draft_probs = draft_.view;
  request.draft_tokens = {static_cast<const std::int32_t*>(ids_.data()), batch * n};
  request.target_probs = target_.view;
  request.batch = batch;
  request.num_draft_tokens = n;
  request.seed = options_->draw.seed;
  request.offset = options_->draw.offset;
  tokens_.emplace("tokens", tokens, batch * (n + 1), place_);
  accepted_.emplace("accepted", accepted, batch, place_);
  emitted_.emplace("emitted", emitted, batch, place_);
  statuses_.emplace("statuses", statuses, batch, place_);
  result = {tokens_->view, accepted_->view, emitted_->view, statuses_->view};
}

}  // namespace fairdraw::python
