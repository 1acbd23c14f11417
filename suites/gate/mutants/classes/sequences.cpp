// Mutants that keep requests, and store a part of their state under the wrong key: by slot, by row,
// or not at all. Each call by itself is right, and only events between calls reveal the bug.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

/// The integer model whose slots the mutant changes around events.
class WrongKeeper final : public harness::ServingModel {
 public:
  using Kept = KeptRequest;
  using Slots = std::vector<std::optional<Kept>>;

  /// An event of a running batch, with the slots before it and after it.
  struct Moment {
    const fairdraw_event& event;
    Slots& slots;
    const Slots& were;

    std::size_t slot(std::int64_t row = 0) const {
      return static_cast<std::size_t>(event.slot[row]);
    }
    Kept& kept(std::int64_t row = 0) const { return *slots[slot(row)]; }
    bool runs(std::size_t slot) const {
      return std::find(event.slot, event.slot + event.rows, static_cast<std::int32_t>(slot)) !=
             event.slot + event.rows;
    }
  };
  using Change = std::function<void(const Moment&)>;
  struct Changes {
    Change before = {}, after = {};
  };

  WrongKeeper(bool exact, Changes changes) : changes_(std::move(changes)) {
    if (exact) return;
    description_.exact_integer = false;
    description_.reports_probs = description_.reports_logprobs = false;
  }

  std::string run_event(const fairdraw_event& event) override {
    const Slots were = kept_;
    if (changes_.before) changes_.before({event, kept_, were});
    std::string refused = ServingModel::run_event(event);
    if (refused.empty() && changes_.after) changes_.after({event, kept_, were});
    return refused;
  }

 private:
  Changes changes_;
};

using Moment = WrongKeeper::Moment;
using Kept = WrongKeeper::Kept;
using Changes = WrongKeeper::Changes;

/// Makes a mutant. `changes` is called for each sampler, so that each sampler has its own state.
Mutant wrong(bool exact, const char* name, const char* sentence, std::function<Changes()> changes) {
  return {name,
          "systematic",
          "sequences",
          sentence,
          {"sequences/*"},
          exact ? "model:integers" : "model:law",
          [exact, changes = std::move(changes)] {
            return std::make_unique<WrongKeeper>(exact, changes());
          }};
}

/// Makes a mutant that applies `change` after each event of the kind `kind`.
Mutant after_each(bool exact, std::uint32_t kind, const char* name, const char* sentence,
                  void (*change)(const Moment&)) {
  return wrong(exact, name, sentence, [kind, change] {
    return Changes{.after = [kind, change](const Moment& at) {
      if (at.event.kind == kind) change(at);
    }};
  });
}

using TakeOver = void (*)(Kept& request, const Kept& former);

/// Makes a mutant in which a request that enters by an event of the kind `kind` takes over state of
/// the previous request in the slot, of this batch or of an earlier one.
Mutant takes_over(bool exact, std::uint32_t kind, const char* name, const char* sentence,
                  TakeOver take, bool of_earlier_batch = false) {
  return wrong(exact, name, sentence, [kind, take, of_earlier_batch] {
    const auto former = std::make_shared<std::map<std::size_t, Kept>>();
    return Changes{.after = [=](const Moment& at) {
      const bool leaves =
          at.event.kind == FAIRDRAW_EVENT_EVICT || at.event.kind == FAIRDRAW_EVENT_END;
      if (leaves && !of_earlier_batch) former->insert_or_assign(at.slot(), *at.were[at.slot()]);
      if (at.event.kind == FAIRDRAW_EVENT_BEGIN) {
        former->clear();
        for (std::size_t slot = 0; of_earlier_batch && slot < at.were.size(); ++slot) {
          if (at.were[slot]) former->emplace(slot, *at.were[slot]);
        }
      }
      if (at.event.kind != kind) return;
      const auto found = former->find(at.slot());
      if (found == former->end()) return;
      take(at.kept(), found->second);
      former->erase(found);
    }};
  });
}

void take_output(Kept& request, const Kept& former) {
  if (!request.processing || !former.processing) return;
  std::vector<std::int32_t>& output = request.processing->output;
  output.insert(output.begin(), former.processing->output.begin(), former.processing->output.end());
}

std::vector<Mutant> slots() {
  return {
      takes_over(false, FAIRDRAW_EVENT_ADD, "slot-keeps-penalties",
                 "a request gets the penalties of the one that was in its slot before",
                 [](Kept& request, const Kept& former) {
                   if (!request.processing || !former.processing) return;
                   take_penalties(*request.processing, *former.processing);
                 }),
      takes_over(false, FAIRDRAW_EVENT_ADD, "slot-keeps-output",
                 "the output of a slot is not emptied when another request takes it", take_output),
      takes_over(false, FAIRDRAW_EVENT_ADD, "slot-keeps-prompt",
                 "the prompt's mask of a slot is not cleared when another request takes it",
                 [](Kept& request, const Kept& former) {
                   if (!request.processing || !former.processing) return;
                   std::vector<std::int32_t>& prompt = request.processing->prompt;
                   prompt.insert(prompt.end(), former.processing->prompt.begin(),
                                 former.processing->prompt.end());
                 }),
      takes_over(false, FAIRDRAW_EVENT_ADD, "slot-keeps-processing",
                 "a request without processing gets that of the one that was in its slot before",
                 [](Kept& request, const Kept& former) {
                   if (!request.processing) request.processing = former.processing;
                 }),
      takes_over(false, FAIRDRAW_EVENT_ADD, "slot-keeps-offset",
                 "a request goes on with the offset of the one that was in its slot before",
                 [](Kept& request, const Kept& former) { request.offset = former.offset; }),
      takes_over(false, FAIRDRAW_EVENT_RESTORE, "slot-keeps-seed",
                 "a restored request draws from the seed of the one that was in its slot before",
                 [](Kept& request, const Kept& former) { request.seed = former.seed; }),
      takes_over(false, FAIRDRAW_EVENT_ADD, "slot-keeps-output-of-earlier-batch",
                 "a new batch finds the outputs of the requests that an earlier one left",
                 take_output, /*of_earlier_batch=*/true),
  };
}

std::vector<Mutant> added() {
  return {after_each(false, FAIRDRAW_EVENT_ADD, "add-sorts-the-prompt",
                     "a request's prompt is kept in ascending order, with each id once",
                     [](const Moment& at) {
                       if (!at.kept().processing) return;
                       std::vector<std::int32_t>& prompt = at.kept().processing->prompt;
                       std::ranges::sort(prompt);
                       const auto repeated = std::ranges::unique(prompt);
                       prompt.erase(repeated.begin(), repeated.end());
                     })};
}

std::vector<Mutant> restored() {
  return {
      after_each(false, FAIRDRAW_EVENT_RESTORE, "restore-loses-counts",
                 "a request that is restored has no output any more, but its length",
                 [](const Moment& at) {
                   if (at.kept().processing) at.kept().processing->output.clear();
                 }),
      after_each(false, FAIRDRAW_EVENT_RESTORE, "restore-loses-the-last-token",
                 "a request that is restored has its output but for the last token",
                 [](const Moment& at) {
                   if (!at.kept().processing || at.kept().processing->output.empty()) return;
                   at.kept().processing->output.pop_back();
                 }),
      after_each(false, FAIRDRAW_EVENT_RESTORE, "restore-starts-offset-again",
                 "a request that is restored draws from offset 0 on",
                 [](const Moment& at) { at.kept().offset = 0; }),
      after_each(false, FAIRDRAW_EVENT_RESTORE, "restore-starts-length-again",
                 "min_tokens counts from the time when a request was restored",
                 [](const Moment& at) {
                   if (at.kept().processing) at.kept().processing->output_length = 0;
                 }),
  };
}

std::vector<Mutant> steps() {
  return {
      wrong(false, "step-parameters-by-row",
            "row i of a step gets the parameters of slot i, whichever request it is",
            [] {
              return Changes{.before =
                                 [](const Moment& at) {
                                   if (at.event.kind != FAIRDRAW_EVENT_STEP) return;
                                   for (std::int64_t row = 0; row < at.event.rows; ++row) {
                                     const auto& in_row = at.were[static_cast<std::size_t>(row)];
                                     if (in_row) at.kept(row).parameters = in_row->parameters;
                                   }
                                 },
                             .after =
                                 [](const Moment& at) {
                                   if (at.event.kind != FAIRDRAW_EVENT_STEP) return;
                                   for (std::int64_t row = 0; row < at.event.rows; ++row) {
                                     at.kept(row).parameters = at.were[at.slot(row)]->parameters;
                                   }
                                 }};
            }),
      after_each(false, FAIRDRAW_EVENT_STEP, "step-appends-by-row",
                 "the token of row i is appended to the output of slot i",
                 [](const Moment& at) {
                   for (std::int64_t row = 0; row < at.event.rows; ++row) {
                     Kept& kept = at.kept(row);
                     if (kept.processing) kept.processing = at.were[at.slot(row)]->processing;
                   }
                   for (std::int64_t row = 0; row < at.event.rows; ++row) {
                     auto& in_row = at.slots[static_cast<std::size_t>(row)];
                     if (!in_row || !in_row->processing || at.event.tokens[row] < 0) continue;
                     in_row->processing->output.push_back(at.event.tokens[row]);
                     ++in_row->processing->output_length;
                   }
                 }),
      after_each(false, FAIRDRAW_EVENT_STEP, "step-counts-who-does-not-run",
                 "the last token of a request is counted again in a step that it is not in",
                 [](const Moment& at) {
                   for (std::size_t slot = 0; slot < at.slots.size(); ++slot) {
                     if (!at.slots[slot] || !at.slots[slot]->processing || at.runs(slot)) continue;
                     std::vector<std::int32_t>& output = at.slots[slot]->processing->output;
                     if (!output.empty()) output.push_back(output.back());
                   }
                 }),
      after_each(false, FAIRDRAW_EVENT_STEP, "step-advances-all-offsets",
                 "the offset of a request advances in steps that it is not in",
                 [](const Moment& at) {
                   for (std::size_t slot = 0; slot < at.slots.size(); ++slot) {
                     if (at.slots[slot] && !at.runs(slot)) ++at.slots[slot]->offset;
                   }
                 }),
      after_each(true, FAIRDRAW_EVENT_STEP, "step-advances-failed-rows",
                 "a row without a token advances the offset of its request",
                 [](const Moment& at) {
                   for (std::int64_t row = 0; row < at.event.rows; ++row) {
                     if (at.event.tokens[row] < 0) ++at.kept(row).offset;
                   }
                 }),
  };
}

}  // namespace

std::vector<Mutant> sequence_mutants() { return joined({slots(), added(), restored(), steps()}); }

}  // namespace fairdraw::suites
