// The contract of a sampler under test: its description of itself, and the calls that run it.
#pragma once

#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "harness/contract/batch.h"
#include "harness/contract/operation.h"

namespace fairdraw::harness {

struct ServingCall;  // harness/contract/serving.h

/// The sampler's promises about its random bits: which draws are independent of each other, and
/// which are equal. A promise that is not made is not tested.
struct RandomnessContract {
  bool seeds = true;    ///< different seeds, also neighbours, give independent draws
  bool offsets = true;  ///< different offsets of a seed, like steps of serving, are independent
  bool outputs = true;  ///< outputs of a call with one scalar seed are independent
  bool samples = true;  ///< samples of one output are independent
  bool purposes =
      true;  ///< draft, acceptance, recovery and bonus of one (seed, offset): independent
  bool replays = true;  ///< the same seeds and offsets give the same draws again
};

/// The rule by which drafts are accepted. Under every lossless rule the emitted tokens have the
/// target's distribution; all samplers are tested for that. Which drafts are accepted, how often,
/// and which token replaces each depend on the rule, so this is judged only if a sampler declares a
/// rule.
enum class AcceptanceRule {
  none_stated,
  token_wise,  ///< each draft by its own test, min(1, p / q); siblings one after another
  block,       ///< a chain as a whole (Sun et al. 2024, Algorithm 2); nothing stated for trees
};

/// Abilities of a sampler that verifies drafts. A sampler has all these abilities by default;
/// Python callables may decline some. Inputs that a sampler does not take are not passed to it.
struct DraftContract {
  /// Forms of the draft distribution that the sampler takes when it verifies against logits.
  bool unknown = true, probs = true, logits = true;
  /// Takes faulty requests: rows that are no distribution, ids outside the vocabulary, drafts that
  /// their own distribution never gives, lengths that do not fit.
  bool faults = true;
  /// Counts all positions of a chain that pass the token-wise test; otherwise counts at most the
  /// positions before the first that fails.
  bool counts_all = true;
};

/// Abilities that a sampler declares. A check is skipped if it needs an ability that the sampler
/// lacks; the report names that ability as the reason.
struct SamplerDescription {
  std::string name;  ///< as given to --sampler, e.g. "cpu:avx2"
  std::string version;
  std::string semantics;       ///< profile that the sampler follows unless the user names another
  bool exact_integer = false;  ///< claims the integer arithmetic: tokens are compared bit for bit
  bool per_request_seeds = false;  ///< a token depends only on row, parameters, seed and offset
  bool float16 = false, bfloat16 = false;
  bool from_probs = false;              ///< takes rows of probabilities
  bool from_probs_all_filters = false;  ///< also min_p with top_k or top_p on probabilities
  bool chains = false;                  ///< verifies drafted chains
  bool scripted_words = false;  ///< draws with given random words as the specification does: t =
                                ///< floor(word * total / 2^64), first prefix sum above t
  RandomnessContract randomness;
  bool top_k = true, top_p = true, min_p = true;  ///< filters with these
  bool allowed_mask = false, active_rows = false, indices = false, num_samples = false;
  bool lowest_id_ties = false, joint_order = false;
  bool processing = false;   ///< penalties, bias and bans before the temperature
  bool top_n_sigma = false;  ///< also applies the filter top_n_sigma after processing
  bool reports_status = false, reports_support = false, reports_mask = false;
  bool reports_probs = false, reports_logprobs = false;
  bool reports_raw = false, reports_processed = false;  ///< fairdraw_batch.report_* in this mode
  bool ranks_position = false, ranks_at_least = false;  ///< and ranks in the report by this rule
  bool speculation = false;             ///< verifies drafts of requests against logits
  bool draft_trees = false;             ///< also verifies trees of drafts
  bool draft_tree_laws = false;         ///< also verifies trees whose drafts have a distribution
  bool speculation_processing = false;  ///< also processes the target's rows in speculation
  bool keeps_state = false;             ///< keeps the requests of a running batch
  AcceptanceRule acceptance_rule = AcceptanceRule::none_stated;  ///< for chains and trees of drafts
  DraftContract drafts;
  bool samples = true;  ///< false: takes only operations or drafts; run() refuses batches
  // Operations on rows that run_operation() computes, each declared by itself.
  bool softmax = false, log_softmax = false;
  bool top_k_mask_logits = false, min_p_mask_logits = false;
  bool top_k_renorm_probs = false, top_p_renorm_probs = false;
  /// The result of an operation may be the memory of its rows: for masks, and for the other kinds.
  bool masks_in_place = false, operates_in_place = false;
  bool operations_keep_dtype = false;  ///< results have the dtype of the rows; otherwise float32,
                                       ///< except for masked logits
  // Promises that a sampler makes unless it declines them. A declined promise is not judged, and
  // the report says so.
  bool bad_rows = true;     ///< answers bad rows (NaN, parameters out of range, nothing allowed,
                            ///< indices of no row); declined: its caller refuses them
  bool flush_modes = true;  ///< the caller's FTZ and DAZ modes do not change results; declined: it
                            ///< computes in these modes, like compiled float32 code
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual const SamplerDescription& description() const = 0;

  /// Runs one batch. Returns an empty string, or the reason why the whole call was refused.
  virtual std::string run(const fairdraw_batch& batch) = 0;

  /// Computes an operation on rows, of a kind that description() declares. Returns as run() does.
  virtual std::string run_operation(const fairdraw_operation& operation);

  /// Runs a call of serving, of a kind that description() declares. Returns as run() does.
  virtual std::string run_serving(const ServingCall& call);

  /// Returns the memory for the arrays of a call. A sampler in another process shares its own
  /// memory here, so that no arrays are copied.
  virtual std::pmr::memory_resource* memory() { return std::pmr::get_default_resource(); }

  /// Returns why the sampler no longer answers (it crashed, ran out of time, printed, ...); empty
  /// if it does. A case whose sampler breaks has failed and makes no further call.
  virtual std::string broken() const { return {}; }
  /// Clears the broken state; the next call starts the sampler again.
  virtual void recover() {}
};

/// Returns the names of the built-in samplers that this machine can run, the default first. The
/// last is `model`, the integer model itself, which is slow and right by definition.
std::vector<std::string> builtin_sampler_names();

/// Returns the samplers that are judged if none is named, each code once. The name of the
/// instruction set that `cpu` picks on this machine is left out because it is the same code, and so
/// is `model`, the reference.
std::vector<std::string> distinct_sampler_names();

/// Makes the built-in sampler `name`. Throws UsageError with the closest name if there is none.
std::unique_ptr<Sampler> make_builtin_sampler(const std::string& name);

}  // namespace fairdraw::harness
