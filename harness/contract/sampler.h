// The contract of a system under test: what it says of itself, and the one call that runs it.
#pragma once

#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "harness/contract/batch.h"
#include "harness/contract/operation.h"

namespace fairdraw::harness {

struct ServingCall;  // harness/contract/serving.h

/// Which draws must be independent of each other, and which equal: what a sampler promises of its
/// random bits. Where a promise is not made, neither is tested.
struct RandomnessContract {
  bool seeds = true;    ///< different seeds (neighbours too): independent
  bool offsets = true;  ///< different offsets of one seed, as steps of serving have: independent
  bool outputs = true;  ///< outputs of a call that share one scalar seed: independent
  bool samples = true;  ///< samples of one output: independent
  bool purposes =
      true;  ///< draft, acceptance, recovery and bonus of one (seed, offset): independent
  bool replays = true;  ///< the same seeds and offsets again: equal
};

/// By which rule drafts are accepted. Every lossless rule gives what is emitted the target's
/// distribution, and that is asked of all of them. Which drafts are accepted, how often, and what
/// comes instead of each, is the rule's own: it is judged only where a rule is declared.
enum class AcceptanceRule {
  none_stated,
  token_wise,  ///< each draft by a test of its own: min(1, p / q), siblings one after the other
  block,       ///< a chain as a whole (Sun et al. 2024, Algorithm 2); of trees nothing is stated
};

/// What a sampler that verifies drafts takes and gives: all of it, unless it says otherwise, which
/// callables of Python can. What it does not take it is not asked for.
struct DraftContract {
  /// Knowledge of the drafts' distribution where they are verified against logits.
  bool unknown = true, probs = true, logits = true;
  /// Requests with a fault: rows that are no distribution, ids outside of the vocabulary, drafts
  /// that their own distribution never gives, lengths that do not fit.
  bool faults = true;
  /// Counts all positions of a chain that pass the token-wise test; else no more than
  /// those before the first that does not.
  bool counts_all = true;
};

/// What a sampler declares. A check that needs an ability the sampler lacks is skipped, with the
/// ability as the reason.
struct SamplerDescription {
  std::string name;  ///< as given to --sampler, e.g. "cpu:avx2"
  std::string version;
  std::string semantics;       ///< profile that it follows unless the user names another
  bool exact_integer = false;  ///< claims the integer arithmetic: tokens are compared bit for bit
  bool per_request_seeds = false;  ///< a token depends on nothing but row, parameters, seed, offset
  bool float16 = false, bfloat16 = false;
  bool from_probs = false;              ///< takes rows of probabilities
  bool from_probs_all_filters = false;  ///< there min_p together with top_k or top_p too
  bool chains = false;                  ///< verifies drafted chains
  bool scripted_words = false;  ///< draws with given random words, as the specification does: t =
                                ///< floor(word * total / 2^64), first prefix sum above t
  RandomnessContract randomness;
  bool top_k = true, top_p = true, min_p = true;  ///< filters with these
  bool allowed_mask = false, active_rows = false, indices = false, num_samples = false;
  bool lowest_id_ties = false, joint_order = false;
  bool processing = false;   ///< penalties, bias and bans before the temperature
  bool top_n_sigma = false;  ///< and this filter behind them
  bool reports_status = false, reports_support = false, reports_mask = false;
  bool reports_probs = false, reports_logprobs = false;
  bool reports_raw = false, reports_processed = false;  ///< fairdraw_batch.report_*, by mode
  bool ranks_position = false, ranks_at_least = false;  ///< and the ranks in it, by rule
  bool speculation = false;             ///< verifies drafts of requests against logits
  bool draft_trees = false;             ///< there, trees of drafts too
  bool draft_tree_laws = false;         ///< and trees whose drafts have a distribution
  bool speculation_processing = false;  ///< there, processing of the target's rows
  bool keeps_state = false;             ///< keeps the requests of a running batch
  AcceptanceRule acceptance_rule = AcceptanceRule::none_stated;  ///< of chains and trees of drafts
  DraftContract drafts;
  bool samples = true;  ///< false: it has operations or verifies drafts, and run() refuses batches
  // Operations on rows, run_operation(), each kind by itself.
  bool softmax = false, log_softmax = false;
  bool top_k_mask_logits = false, min_p_mask_logits = false;
  bool top_k_renorm_probs = false, top_p_renorm_probs = false;
  /// Their result may be the memory of their rows: of masks, of the others.
  bool masks_in_place = false, operates_in_place = false;
  bool operations_keep_dtype = false;  ///< results have the dtype of the rows; else float32, but
                                       ///< for masked logits
  // Promises that a sampler makes unless it declines them. What is declined is not judged, and the
  // report says so.
  bool bad_rows = true;     ///< answers bad rows (NaN, parameters outside of their range, nothing
                            ///< allowed, indices of no row); declined: its caller refuses them
  bool flush_modes = true;  ///< the caller's FTZ and DAZ reach no result; declined: it computes in
                            ///< the caller's modes, as compiled float32 code does
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual const SamplerDescription& description() const = 0;

  /// Runs one batch. Returns an empty string, or why the whole call was refused.
  virtual std::string run(const fairdraw_batch& batch) = 0;

  /// Computes an operation on rows; the same return value. Only of kinds that description() has.
  virtual std::string run_operation(const fairdraw_operation& operation);

  /// Takes a call of serving; the same return value. Only of kinds that description() has.
  virtual std::string run_serving(const ServingCall& call);

  /// Memory that the arrays of a call are to lie in. A sampler in another process has its own, and
  /// gets no copies of arrays then.
  virtual std::pmr::memory_resource* memory() { return std::pmr::get_default_resource(); }

  /// Why the sampler gives no answers any more: it crashed, ran out of time, printed, ...; empty:
  /// it is. A case whose sampler breaks has failed, and makes no further call.
  virtual std::string broken() const { return {}; }
  /// Forgets that it broke: the next call starts again.
  virtual void recover() {}
};

/// Names of the built-in samplers that this machine can run, the default first. The last one is
/// `model`, the integer model itself: slow, and right by definition.
std::vector<std::string> builtin_sampler_names();

/// Those that are judged where none is named: each code once, so without the instruction set that
/// `cpu` is on this machine, and without `model`, which the others are compared with.
std::vector<std::string> distinct_sampler_names();

/// The built-in sampler `name`. Throws UsageError (with the closest name) when there is none.
std::unique_ptr<Sampler> make_builtin_sampler(const std::string& name);

}  // namespace fairdraw::harness
