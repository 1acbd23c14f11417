// The operations of fairdraw/speculative.h on both backends, as fairdraw/speculative.py needs them.
#include "fairdraw/speculative.h"

#include <optional>

#include "fairdraw/cuda.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/processing_argument.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

/// Filters of a distribution: (temperature, top_k, top_p, min_p, tie_rule, filter_order).
struct Distribution {
  Parameter<float> temperature, top_p, min_p;
  Parameter<std::int32_t> top_k;
  LawFilters filters;

  Distribution(Handle object, const Place& place) {
    const auto parts = nb::cast<nb::tuple>(object);
    temperature = temperature_of(parts[0], place);
    top_k = top_k_of(parts[1], place);
    top_p = probability("top_p", parts[2], place);
    min_p = probability("min_p", parts[3], place);
    filters = {temperature.value,
               top_k.value,
               top_p.value,
               min_p.value,
               nb::cast<TieRule>(parts[4]),
               nb::cast<FilterOrder>(parts[5])};
  }
  // `filters` points into the other members.
  Distribution(const Distribution&) = delete;
  Distribution& operator=(const Distribution&) = delete;
};

/// The target's side of a call: (logits, filters, allowed, processing, batch, row_begins, active,
/// seed, offset, stream).
class Target {
 public:
  explicit Target(Handle object)
      : parts_(nb::cast<nb::tuple>(object)),
        rows_(rows_of("logits", parts_[0], nb::object(parts_[5]).is_none() ? 3 : 2)),
        place_(place_of(rows_.array, nb::cast<std::uint64_t>(parts_[9]), nb::none())),
        distribution_(parts_[1], place_),
        processing_(parts_[3], place_),
        row_begins_("row_begins", parts_[5], place_),
        active_("active", parts_[6], place_),
        options_(parts_[7], parts_[8], nb::none(), 1, place_) {
    view.logits = rows_.view;
    view.filters = distribution_.filters;
    view.processing = processing_.view;
    view.batch = nb::cast<std::int64_t>(parts_[4]);
    view.row_begins = row_begins_.view;
    view.active = active_.view;
    view.seed = options_.draw.seed;
    view.offset = options_.draw.offset;
    if (const nb::object allowed = parts_[2]; !allowed.is_none()) {
      allowed_ = input_array("allowed", allowed, &place_);
      view.allowed = bit_rows<const std::uint32_t>("allowed", allowed_, rows_.view.vocab);
    }
  }

  const Place& place() const { return place_; }
  /// Of the logits: packed rows, or as many for each request.
  std::size_t axes() const { return rows_.array.ndim(); }
  TargetRows view;

 private:
  nb::tuple parts_;
  Rows rows_;
  Place place_;
  Distribution distribution_;
  Processing processing_;
  Input<std::int64_t> row_begins_;
  Input<std::uint8_t> active_;
  Options options_;
  InputArray allowed_;
};

/// The draft's side: (distribution, rows, filters); without a distribution the rest is not looked
/// at.
class Draft {
 public:
  /// `axes` of the rows.
  Draft(Handle object, std::size_t axes, const Place& place)
      : parts_(nb::cast<nb::tuple>(object)), distribution_(parts_[2], place) {
    distribution = nb::cast<DraftLaw>(parts_[0]);
    if (distribution == DraftLaw::none) return;
    rows_ = rows_of(distribution == DraftLaw::probs ? "draft_probs" : "draft_logits", parts_[1],
                    axes, &place);
  }

  template <class Request>
  void into(Request& request) const {
    request.draft_law = distribution;
    if (distribution == DraftLaw::none) return;
    request.draft = rows_.view;
    request.draft_filters = distribution_.filters;
  }
  DraftLaw distribution = DraftLaw::none;

 private:
  nb::tuple parts_;
  Distribution distribution_;
  Rows rows_;
};

/// Runs a call where its target is, on a GPU with the workspace that it takes.
template <class Request, class Call>
void run_speculation(const Target& target, const Request& request, Handle allocate,
                     const Call& call) {
  Place place = target.place();
  bring_workspace(place, allocate, cuda::workspace_bytes(request));
  run(place, call);
}

void chains(Handle target_parts, std::int64_t max_draft, Handle draft_tokens, Handle draft_lengths,
            Handle draft_parts, Handle tokens, Handle accepted, Handle statuses, Handle allocate) {
  const Target target(target_parts);
  const Place& place = target.place();
  const Input<std::int32_t> ids("draft_token_ids", draft_tokens, place);
  const Input<std::int32_t> lengths("draft_lengths", draft_lengths, place);
  const Draft draft(draft_parts, target.axes(), place);
  VerifyChainRequest request;
  request.target = target.view;
  request.max_draft = max_draft;
  request.draft_tokens = ids.view;
  request.draft_lengths = lengths.view;
  draft.into(request);
  const std::int64_t batch = request.target.batch;
  const Output<std::int32_t> out("tokens", tokens, batch * (max_draft + 1), place);
  const Output<std::int32_t> accept("accepted", accepted, batch, place);
  const Statuses status("statuses", statuses, batch, place);
  const VerifyChainResult result{out.view, accept.view, status.view};
  run_speculation(target, request, allocate,
                  [&](const auto& how) { return verify_chain(request, result, how); });
}

void trees(Handle target_parts, std::int64_t max_draft, std::int64_t max_depth, Handle draft_tokens,
           Handle parents, Handle draft_lengths, Handle draft_parts, SiblingSampling siblings,
           Handle tokens, Handle nodes, Handle accepted, Handle statuses, Handle allocate) {
  const Target target(target_parts);
  const Place& place = target.place();
  const Input<std::int32_t> ids("draft_token_ids", draft_tokens, place);
  const Input<std::int32_t> links("parents", parents, place);
  const Input<std::int32_t> lengths("draft_lengths", draft_lengths, place);
  const Draft draft(draft_parts, target.axes(), place);
  VerifyTreeRequest request;
  request.target = target.view;
  request.max_draft = max_draft;
  request.max_depth = max_depth;
  request.draft_tokens = ids.view;
  request.parents = links.view;
  request.draft_lengths = lengths.view;
  draft.into(request);
  request.siblings = siblings;
  const std::int64_t batch = request.target.batch;
  const Output<std::int32_t> out("tokens", tokens, batch * (max_depth + 1), place);
  const Output<std::int32_t> path("nodes", nodes, batch * max_depth, place);
  const Output<std::int32_t> accept("accepted", accepted, batch, place);
  const Statuses status("statuses", statuses, batch, place);
  const VerifyTreeResult result{out.view, path.view, accept.view, status.view};
  run_speculation(target, request, allocate,
                  [&](const auto& how) { return verify_tree(request, result, how); });
}

void links_to_parents(Handle next_token, Handle next_sibling, std::int64_t batch,
                      std::int64_t nodes, Handle parents) {
  const Place host;
  const Input<std::int32_t> children("retrieve_next_token", next_token, host);
  const Input<std::int32_t> siblings("retrieve_next_sibling", next_sibling, host);
  const Output<std::int32_t> out("parents", parents, batch * (nodes - 1), host);
  run_on_host(
      [&] { return parents_from_links(children.view, siblings.view, batch, nodes, out.view); });
}

}  // namespace

void bind_speculative(nb::module_& module) {
  define(module, "verify_chain", &chains, "target", "max_draft", "draft_tokens", "draft_lengths",
         "draft", "tokens", "accepted", "statuses", "allocate");
  define(module, "verify_tree", &trees, "target", "max_draft", "max_depth", "draft_tokens",
         "parents", "draft_lengths", "draft", "siblings", "tokens", "nodes", "accepted", "statuses",
         "allocate");
  define(module, "parents_from_links", &links_to_parents, "next_token", "next_sibling", "batch",
         "nodes", "parents");
}

}  // namespace fairdraw::python
