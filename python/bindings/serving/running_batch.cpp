#include "python/bindings/running_batch.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "harness/adapters/kept_batch.h"
#include "harness/run/calls/request.h"
#include "python/bindings/lent_call.h"
#include "python/bindings/serving/batch_fields.h"
#include "python/bindings/token_ids.h"

namespace fairdraw::python {
namespace {

constexpr const char* kStep = "the running batch's step";

// Calls a method of a Python object and ignores the method's result.
template <class... Arguments>
std::string tell(const nb::object& object, const char* method, const Arguments&... arguments) {
  const std::string who = fmt::format("the running batch's {}", method);
  return guarded(who.c_str(), [&] {
    object.attr(method)(arguments...);
    return std::string();
  });
}

// Returns the event's rows as a batch, so that Python code gets events and batches in one form.
fairdraw_batch batch_of(const fairdraw_event& event) {
  fairdraw_batch batch{};
  batch.struct_size = sizeof(batch);
  batch.dtype = event.dtype;
  batch.logits = event.logits;
  batch.rows = batch.outputs = event.rows;
  batch.num_samples = 1;
  batch.vocab = batch.row_stride = event.vocab;
  batch.tie_rule = event.tie_rule;
  batch.filter_order = event.filter_order;
  batch.allowed = event.allowed;
  batch.allowed_stride = harness::words_for(event.vocab);
  batch.indices = event.slot;
  return batch;
}

}  // namespace

std::string RunningBatch::make() {
  constexpr const char* kWho = "running_batch()";
  return guarded(kWho, [&] {
    nb::object made = callable_.running_batch();
    for (const char* const method : {"begin", "add", "step", "evict", "restore", "end"}) {
      const nb::object found = nb::getattr(made, method, nb::none());
      if (PyCallable_Check(found.ptr()) != 0) continue;
      return fmt::format("{} returned a {}, which has no method {}", kWho, name_of_type(made),
                         method);
    }
    object_ = std::move(made);
    return std::string();
  });
}

std::string RunningBatch::begin(const fairdraw_event& event) {
  Loan nothing_is_lent;
  const fairdraw_batch batch = batch_of(event);
  const LentView view(batch, callable_.arrays, nothing_is_lent);
  return tell(object_, "begin", event.slots, event.vocab, view.object().attr("dtype"),
              view.object().attr("tie_rule"), view.object().attr("filter_apply_order"));
}

std::string RunningBatch::take(const fairdraw_event& event, std::int64_t row) {
  const RequestSnapshot snapshot = harness::snapshot_of(event, row, 0);
  const nb::object request = nb::module_::import_("fairdraw.serving")
                                 .attr("BatchRequest")
                                 .attr("_of")(fields_of(snapshot.request));
  const std::int32_t slot = event.slot[row];
  if (event.kind == FAIRDRAW_EVENT_ADD) return tell(object_, "add", slot, request);
  return tell(object_, "restore", slot, request, nb::cast(snapshot.output));
}

std::string RunningBatch::take_answer(nb::handle answer, const fairdraw_event& event) const {
  const bool with_statuses = callable_.kept_description.reports_status;
  nb::object tokens = nb::borrow(answer);
  nb::object statuses;
  if (with_statuses) {
    const bool pair = nb::isinstance<nb::tuple>(answer) && nb::len(answer) == 2;
    if (!pair) {
      return fmt::format(
          "{} returned a {}; a tuple (tokens, statuses) is needed, as the ability reports_status "
          "says",
          kStep, name_of_type(answer));
    }
    tokens = answer[0];
    statuses = answer[1];
  }
  std::string wrong =
      take_ids(tokens, {.outputs = event.rows, .samples = 1, .ids = event.tokens, .who = kStep});
  if (!wrong.empty() || !with_statuses) return wrong;
  std::vector<std::int32_t> unasked(static_cast<std::size_t>(event.rows));
  return take_ids(statuses, {.outputs = event.rows,
                             .samples = 1,
                             .ids = event.statuses != nullptr ? event.statuses : unasked.data(),
                             .who = kStep,
                             .all = "statuses",
                             .kind = "statuses",
                             .one = "status"});
}

std::string RunningBatch::step(const fairdraw_event& event) {
  Loan loan;
  std::string refused;
  {
    const fairdraw_batch batch = batch_of(event);
    const LentView view(batch, callable_.arrays, loan);
    nb::object answer;
    refused = guarded(kStep, [&] {
      const nb::object& rows = view.object();
      answer =
          object_.attr("step")(rows.attr("indices"), rows.attr("logits"), rows.attr("allowed"));
      return std::string();
    });
    if (refused.empty()) refused = guarded(kStep, [&] { return take_answer(answer, event); });
  }
  return given_back(kStep, "step", loan, callable_.retained, std::move(refused));
}

std::string RunningBatch::leave(const fairdraw_event& event) {
  return tell(object_, event.kind == FAIRDRAW_EVENT_EVICT ? "evict" : "end", event.slot[0]);
}

std::string RunningBatch::run(const fairdraw_event& event) {
  if (!object_.is_valid()) {
    if (std::string wrong = make(); !wrong.empty()) return wrong;
  }
  switch (event.kind) {
    case FAIRDRAW_EVENT_BEGIN:
      return begin(event);
    case FAIRDRAW_EVENT_ADD:
    case FAIRDRAW_EVENT_RESTORE:
      return take(event, 0);
    case FAIRDRAW_EVENT_STEP:
      return step(event);
    default:
      return leave(event);
  }
}

std::string RunningBatch::sample(const fairdraw_batch& batch) {
  const bool a_row_each = batch.input == 0 && batch.indices == nullptr && batch.num_samples == 1 &&
                          batch.active == nullptr && batch.words == nullptr &&
                          batch.row_stride == batch.vocab &&
                          (batch.seed_is_scalar == 0 || batch.outputs == 1);
  if (!a_row_each) return "a running batch draws one token of each row of logits";
  std::vector<std::int32_t> slots(static_cast<std::size_t>(batch.rows));
  std::iota(slots.begin(), slots.end(), 0);

  fairdraw_event event{};
  event.struct_size = sizeof(event);
  event.slots = event.rows = batch.rows;
  event.vocab = batch.vocab;
  event.dtype = batch.dtype;
  event.tie_rule = batch.tie_rule;
  event.filter_order = batch.filter_order;
  event.slot = slots.data();
  event.temperature = batch.temperature;
  event.top_k = batch.top_k;
  event.top_p = batch.top_p;
  event.min_p = batch.min_p;
  event.seed = batch.seed;
  event.offset = batch.offset;
  event.processing = batch.processing;
  event.logits = batch.logits;
  event.allowed = batch.allowed;
  event.tokens = batch.tokens;
  event.statuses = batch.statuses;

  event.kind = FAIRDRAW_EVENT_BEGIN;
  std::string wrong = run(event);
  event.kind = FAIRDRAW_EVENT_RESTORE;
  for (std::int64_t row = 0; row < batch.rows && wrong.empty(); ++row) wrong = take(event, row);
  event.kind = FAIRDRAW_EVENT_STEP;
  return wrong.empty() ? run(event) : wrong;
}

}  // namespace fairdraw::python
