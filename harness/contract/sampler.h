// The contract of a sampler under test: the sampler's description of itself, and the calls that run
// it.
#pragma once

#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "harness/contract/batch.h"
#include "harness/contract/operation.h"

namespace fairdraw::harness {

struct ServingCall;  // harness/contract/serving.h

/// The promises of a sampler about its random bits: which draws are independent of each other, and
/// which are equal. A promise that the sampler does not make is not tested.
struct RandomnessContract {
  bool seeds = true;    ///< different seeds, also neighbours, give independent draws
  bool offsets = true;  ///< different offsets of one seed give independent draws
  bool outputs = true;  ///< outputs of a call with one scalar seed are drawn independently
  bool samples = true;  ///< samples of one output are independent
  bool purposes =
      true;  ///< draft, acceptance, recovery and bonus of one (seed, offset) are independent
  bool replays = true;  ///< the same seeds and offsets give the same draws again
};

/// The rule by which a sampler accepts drafted tokens. Under every lossless rule the emitted tokens
/// have the target's distribution, which is tested for all samplers. The rule decides which drafts
/// are accepted, how often, and which token replaces each; these are only judged if a sampler
/// declares a rule.
enum class AcceptanceRule {
  none_stated,
  token_wise,  ///< each draft by its own test, min(1, p / q); siblings one after another
  block,       ///< jointly for a chain (Sun et al. 2024, Algorithm 2); not defined for trees
};

/// The abilities of a sampler that verifies drafts. A sampler has all of these abilities by
/// default; Python callables may decline some of them. The judge never gives a sampler inputs that
/// it does not take.
struct DraftContract {
  /// Forms of draft distributions that the sampler takes when it verifies drafts against logits.
  bool unknown = true, probs = true, logits = true;
  /// Takes faulty requests: rows that are no distribution, ids outside the vocabulary, drafts of
  /// probability 0 in their own distribution, lengths that do not fit.
  bool faults = true;
  /// Counts all positions of a chain that pass the token-wise test; otherwise the sampler counts at
  /// most the positions before the first that fails.
  bool counts_all = true;
};

/// The abilities that a sampler declares. A check is skipped if it needs an ability that the
/// sampler lacks; the report names that ability as the reason.
struct SamplerDescription {
  std::string name;  ///< as given to --sampler, e.g. "cpu:avx2"
  std::string version;
  std::string semantics;           ///< profile that the sampler says it follows
  bool exact_integer = false;      ///< claims the integer arithmetic: tokens are compared by bits
  bool per_request_seeds = false;  ///< a token depends only on its row, parameters, seed and offset
  bool float16 = false, bfloat16 = false;
  bool from_probs = false;              ///< takes rows of probabilities too
  bool from_probs_all_filters = false;  ///< min_p with top_k or top_p on probabilities too
  bool chains = false;                  ///< verifies drafted chains
  bool scripted_words = false;  ///< draws with given random words as the specification does: t =
                                ///< floor(word * total / 2^64), then the first token whose prefix
                                ///< sum exceeds t
  RandomnessContract randomness;
  bool top_k = true, top_p = true, min_p = true;  ///< filters with these
  bool allowed_mask = false, active_rows = false, indices = false, num_samples = false;
  bool lowest_id_ties = false, joint_order = false;
  bool processing = false;           ///< applies penalties, bias and bans before the temperature
  bool top_n_sigma = false;          ///< also applies the filter top_n_sigma after processing
  bool probability_filters = false;  ///< also applies the filters by probability after processing
  bool history_rules = false;        ///< also applies the rules of histories
  /// Names of steps of processing that the sampler lacks (harness/inputs/processing_steps.h). The
  /// judge leaves these steps out of the processing that it asks for.
  std::vector<std::string> lacked_steps;
  /// Takes processing as the buffers of the contract, which can be faulty, and have prompts as
  /// masks and outputs as counts. Otherwise the sampler gets each row's processing as lists.
  bool processing_buffers = true;
  /// Marks rows (fairdraw_batch.mark_scheme) by a key alone, by a key and the row's seed, or by
  /// raised logits.
  bool marks_by_key = false, marks_by_key_and_seed = false, marks_green_lists = false;
  bool reports_status = false, reports_support = false, reports_mask = false;
  bool reports_probs = false, reports_logprobs = false;
  bool reports_raw = false, reports_processed = false;  ///< fairdraw_batch.report_* in raw or
                                                        ///< processed modes
  bool ranks_position = false, ranks_at_least = false;  ///< reports ranks by this rank rule
  bool speculation = false;             ///< verifies drafts of requests against logits
  bool draft_trees = false;             ///< also verifies trees of drafts
  bool draft_tree_laws = false;         ///< also verifies trees whose drafts have a distribution
  bool speculation_processing = false;  ///< also processes the target's rows in speculation
  bool keeps_state = false;             ///< keeps the requests of a running batch
  AcceptanceRule acceptance_rule = AcceptanceRule::none_stated;  ///< the rule by which the sampler
                                                                 ///< accepts drafts
  DraftContract drafts;
  bool samples = true;  ///< false: takes only operations or drafts, so run() refuses batches
  // Operations on rows that run_operation() computes; a sampler declares each one.
  bool softmax = false, log_softmax = false;
  bool top_k_mask_logits = false, min_p_mask_logits = false;
  bool top_k_renorm_probs = false, top_p_renorm_probs = false;
  /// The result of an operation may be the memory of its rows: the first field for masks, the
  /// second for all other operations.
  bool masks_in_place = false, operates_in_place = false;
  bool operations_keep_dtype = false;  ///< results have the dtype of the rows; otherwise float32,
                                       ///< except for masked logits
  // A sampler promises the following unless it declines. A declined promise is not judged, and the
  // report says so.
  bool bad_rows = true;     ///< answers bad rows (NaN, parameters out of range, no allowed token,
                            ///< an index that is no row); if declined, the sampler's caller refuses
                            ///< such rows
  bool flush_modes = true;  ///< the caller's FTZ and DAZ modes do not change results; if declined,
                            ///< the sampler computes in these modes, like compiled float32 code
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual const SamplerDescription& description() const = 0;

  /// Runs one batch. Returns an empty string, or the reason why the whole call was refused.
  virtual std::string run(const fairdraw_batch& batch) = 0;

  /// Computes an operation on rows, whose kind description() must declare. Returns an empty string
  /// or a reason, as run() does.
  virtual std::string run_operation(const fairdraw_operation& operation);

  /// Runs a call of serving, whose kind description() must declare. Returns an empty string or a
  /// reason, as run() does.
  virtual std::string run_serving(const ServingCall& call);

  /// Returns the memory resource for the arrays of a call. A sampler in another process returns its
  /// shared memory, so that arrays need not be copied.
  virtual std::pmr::memory_resource* memory() { return std::pmr::get_default_resource(); }

  /// Returns the reason why the sampler no longer answers (it crashed, ran out of time, printed,
  /// ...), or an empty string if it answers. A case whose sampler breaks has failed, and makes no
  /// further call.
  virtual std::string broken() const { return {}; }
  /// Clears the broken state; the next call starts the sampler again.
  virtual void recover() {}
};

/// Returns the names of the built-in samplers that this machine can run, beginning with the
/// default. The last name is `model`, the integer model itself, which is slow and right by
/// definition.
std::vector<std::string> builtin_sampler_names();

/// Returns the samplers that are judged if the user names none; no two of them run the same code.
/// The list lacks the instruction set that `cpu` selects on this machine, because that is the same
/// code, and it lacks `model`, the reference.
std::vector<std::string> distinct_sampler_names();

/// Makes the built-in sampler `name`. Throws UsageError with the closest name if there is no such
/// sampler.
std::unique_ptr<Sampler> make_builtin_sampler(const std::string& name);

}  // namespace fairdraw::harness
