/* The exports that every plugin has; the calls that it may take are in plugin.h, which includes
 * this header.
 *
 * Errors: A function returns 0, or another number after it has written a message, with its 0, into
 * message[0 ... message_size); then the whole call is refused. If only a row or a request fails, it
 * gets its status, and the function returns 0.
 *
 * Definition: docs/semantics.md and the profile that the plugin declares (reference/semantics.h);
 * harness/contract/operation.h for operations on rows. */
#ifndef FAIRDRAW_PLUGIN_ABI_H
#define FAIRDRAW_PLUGIN_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "operation.h"

/** Changes when the meaning or the layout of anything in these headers does. Fields added at the
   end of a struct change neither: struct_size says how many there are, and an ability who reads
   them. */
#define FAIRDRAW_PLUGIN_ABI 1u

#if defined(__GNUC__)
#define FAIRDRAW_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define FAIRDRAW_PLUGIN_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Abilities: a check that needs one which is not declared is skipped, with that reason. One that
   is declared is judged. */
#define FAIRDRAW_CAN_TOP_K (UINT64_C(1) << 0)
#define FAIRDRAW_CAN_TOP_P (UINT64_C(1) << 1)          /**< fairdraw_batch.top_p */
#define FAIRDRAW_CAN_MIN_P (UINT64_C(1) << 2)          /**< fairdraw_batch.min_p */
#define FAIRDRAW_CAN_ALLOWED_MASK (UINT64_C(1) << 3)   /**< fairdraw_batch.allowed */
#define FAIRDRAW_CAN_ACTIVE_ROWS (UINT64_C(1) << 4)    /**< fairdraw_batch.active */
#define FAIRDRAW_CAN_INDICES (UINT64_C(1) << 5)        /**< fairdraw_batch.indices */
#define FAIRDRAW_CAN_NUM_SAMPLES (UINT64_C(1) << 6)    /**< num_samples above 1 */
#define FAIRDRAW_CAN_FLOAT16 (UINT64_C(1) << 7)        /**< dtype 1 */
#define FAIRDRAW_CAN_BFLOAT16 (UINT64_C(1) << 8)       /**< dtype 2 */
#define FAIRDRAW_CAN_LOWEST_ID_TIES (UINT64_C(1) << 9) /**< tie_rule 1 */
#define FAIRDRAW_CAN_JOINT_ORDER (UINT64_C(1) << 10)   /**< filter_order 1 */
#define FAIRDRAW_CAN_FROM_PROBS (UINT64_C(1) << 11)    /**< input 1 */
/** there min_p together with top_k or top_p too */
#define FAIRDRAW_CAN_FROM_PROBS_ALL_FILTERS (UINT64_C(1) << 12)
#define FAIRDRAW_CAN_CHAINS (UINT64_C(1) << 13) /**< verifies drafted chains */
/** given random words: the token is the first survivor whose prefix sum exceeds floor(word * total
   / 2^64), also where a seed would draw by proposals */
#define FAIRDRAW_CAN_SCRIPTED_WORDS (UINT64_C(1) << 14)
#define FAIRDRAW_REPORTS_STATUS (UINT64_C(1) << 15)   /**< fairdraw_batch.statuses */
#define FAIRDRAW_REPORTS_SUPPORT (UINT64_C(1) << 16)  /**< fairdraw_batch.support_size */
#define FAIRDRAW_REPORTS_MASK (UINT64_C(1) << 17)     /**< fairdraw_batch.mask */
#define FAIRDRAW_REPORTS_PROBS (UINT64_C(1) << 18)    /**< fairdraw_batch.probs */
#define FAIRDRAW_REPORTS_LOGPROBS (UINT64_C(1) << 19) /**< fairdraw_batch.logprob* */
/** a token is a function of its row, parameters, seed and offset, and of nothing else */
#define FAIRDRAW_PER_REQUEST_SEEDS (UINT64_C(1) << 20)
/** the integer arithmetic of fairdraw's specification: tokens are compared bit for bit, and drafts
   are accepted token-wise */
#define FAIRDRAW_EXACT_INTEGER (UINT64_C(1) << 21)
#define FAIRDRAW_CAN_PROCESSING (UINT64_C(1) << 22)  /**< fairdraw_batch.processing; host memory */
#define FAIRDRAW_CAN_TOP_N_SIGMA (UINT64_C(1) << 23) /**< fairdraw_processing.top_n_sigma */
#define FAIRDRAW_CAN_VERIFY (UINT64_C(1) << 24)      /**< verifies requests with drafts */
#define FAIRDRAW_CAN_DRAFT_TREES (UINT64_C(1) << 25) /**< there, parents */
/** there, of trees a draft_law that is not 0, and siblings */
#define FAIRDRAW_CAN_DRAFT_TREE_LAWS (UINT64_C(1) << 26)
/** there, processing; host memory */
#define FAIRDRAW_CAN_VERIFY_PROCESSING (UINT64_C(1) << 27)
/** The rule by which drafts are accepted: at most one of these. Token-wise: each draft by a test of
   its own, min(1, p / q). Block: a chain as a whole (Sun et al. 2024, Algorithm 2). Without either,
   what is emitted must have the target's distribution, whichever drafts are accepted. */
#define FAIRDRAW_ACCEPTS_TOKEN_WISE (UINT64_C(1) << 28)
#define FAIRDRAW_ACCEPTS_BLOCK (UINT64_C(1) << 29) /**< a chain as a whole */
#define FAIRDRAW_KEEPS_STATE (UINT64_C(1) << 30)   /**< keeps the requests of a running batch */
/** fairdraw_batch.report_*: modes 0 and 1, modes 2 and 3, and which ranks */
#define FAIRDRAW_REPORTS_RAW (UINT64_C(1) << 40)
#define FAIRDRAW_REPORTS_PROCESSED (UINT64_C(1) << 41) /**< report modes 2 and 3 */
#define FAIRDRAW_RANKS_POSITION (UINT64_C(1) << 42)    /**< rank_rule 0 */
#define FAIRDRAW_RANKS_AT_LEAST (UINT64_C(1) << 43)    /**< rank_rule 1 */
/** fairdraw_plugin_run_operation of operation.h, each kind by itself */
#define FAIRDRAW_CAN_SOFTMAX (UINT64_C(1) << 44)
#define FAIRDRAW_CAN_LOG_SOFTMAX (UINT64_C(1) << 45)        /**< log_softmax */
#define FAIRDRAW_CAN_TOP_K_MASK_LOGITS (UINT64_C(1) << 46)  /**< top_k_mask_logits */
#define FAIRDRAW_CAN_MIN_P_MASK_LOGITS (UINT64_C(1) << 47)  /**< min_p_mask_logits */
#define FAIRDRAW_CAN_TOP_K_RENORM_PROBS (UINT64_C(1) << 48) /**< top_k_renorm_probs */
#define FAIRDRAW_CAN_TOP_P_RENORM_PROBS (UINT64_C(1) << 49) /**< top_p_renorm_probs */
/** result and values the same memory: of masks of logits, and of the other kinds */
#define FAIRDRAW_MASKS_IN_PLACE (UINT64_C(1) << 50)
#define FAIRDRAW_OPERATES_IN_PLACE (UINT64_C(1) << 51) /**< the other kinds */
/** results of all kinds have the dtype of their rows; without it float32, but for masked logits */
#define FAIRDRAW_OPERATIONS_KEEP_DTYPE (UINT64_C(1) << 52)

/** Promises that a plugin makes unless it declines them with these bits. Declined promises are not
   judged, and the report names them. */
/** the plugin's caller refuses bad rows before the plugin sees them: NaN, parameters out of range,
   no allowed token, indices of no row, drafts with a fault */
#define FAIRDRAW_DECLINES_BAD_ROWS (UINT64_C(1) << 53)
/** it computes in the caller's FTZ and DAZ, so that these may reach a result; a rounding mode of
   the caller may not */
#define FAIRDRAW_DECLINES_FLUSH_MODES (UINT64_C(1) << 54)

/** The randomness contract: promises about random bits. A promise that is not made is
   not tested. */
#define FAIRDRAW_SEEDS_INDEPENDENT (UINT64_C(1) << 0)   /**< different seeds, neighbours too */
#define FAIRDRAW_OFFSETS_INDEPENDENT (UINT64_C(1) << 1) /**< different offsets of one seed */
#define FAIRDRAW_OUTPUTS_INDEPENDENT (UINT64_C(1) << 2) /**< outputs of a call, scalar seed */
#define FAIRDRAW_SAMPLES_INDEPENDENT (UINT64_C(1) << 3) /**< samples of one output */
/** acceptance, recovery and bonus of a chain */
#define FAIRDRAW_PURPOSES_INDEPENDENT (UINT64_C(1) << 4)
#define FAIRDRAW_REPLAYS_EQUAL (UINT64_C(1) << 5) /**< the same seeds and offsets again */

/* NOLINTBEGIN(readability-identifier-naming): names as C has them */
/** fairdraw_batch.statuses, under the semantics fairdraw: why a row has no token. If several
 * apply, the first of these counts:
 *   1. index_out_of_range, of an output whose index is none: no row is read
 *   2. inactive
 *   3. parameters: temperature, top_k, top_p, min_p, then penalties, then min_tokens, then
 *      top_n_sigma; whether a list makes use of them or not
 *   4. values of the row as it came, all of them, banned or not: nan_input, then infinite_input,
 *      then of rows of probabilities negative_probability
 *   5. lists of processing: invalid_history (prompt, output, output_counts, output_lengths), then
 *      invalid_logit_bias (ids and values, of an id that is listed again later too), then
 *      invalid_min_tokens (a stop id), invalid_bad_words, invalid_allowed_ids
 *   6. processing_overflow
 *   7. no_allowed_token
 * drafts.h says what statuses drafts have. A bad row does not affect other rows. */
enum fairdraw_row_status {
  FAIRDRAW_ROW_OK = 0,                   /**< the output has its tokens */
  FAIRDRAW_ROW_INACTIVE = 1,             /**< marked as padding */
  FAIRDRAW_ROW_NAN_INPUT = 2,            /**< NaN somewhere in the row, at a banned id too */
  FAIRDRAW_ROW_INFINITE_INPUT = 3,       /**< +inf somewhere, likewise */
  FAIRDRAW_ROW_NEGATIVE_PROBABILITY = 4, /**< a probability below zero */
  FAIRDRAW_ROW_NO_ALLOWED_TOKEN = 5,     /**< everything is -inf, banned, or of probability zero */
  FAIRDRAW_ROW_INVALID_TEMPERATURE = 6,  /**< not 0 and not in [2^-126, 2^64] */
  FAIRDRAW_ROW_INVALID_TOP_K = 7,        /**< below -1 */
  FAIRDRAW_ROW_INVALID_TOP_P = 8,        /**< not in [0, 1] */
  FAIRDRAW_ROW_INVALID_MIN_P = 9,        /**< not in [0, 1] */
  FAIRDRAW_ROW_INDEX_OUT_OF_RANGE = 10,  /**< an entry of indices, or a draft, outside its range */
  FAIRDRAW_ROW_INVALID_HISTORY = 11,     /**< prompt, output, output_counts or output_lengths */
  FAIRDRAW_ROW_INVALID_PENALTY = 12, /**< repetition, frequency or presence penalty out of range */
  FAIRDRAW_ROW_INVALID_LOGIT_BIAS = 13,   /**< NaN, +inf, beyond 2^64, or an id that is no token */
  FAIRDRAW_ROW_INVALID_MIN_TOKENS = 14,   /**< min_tokens below 0, or a stop id that is no token */
  FAIRDRAW_ROW_INVALID_BAD_WORDS = 15,    /**< a word of a wrong length, an id that is no token */
  FAIRDRAW_ROW_INVALID_ALLOWED_IDS = 16,  /**< an allowed id that is no token */
  FAIRDRAW_ROW_PROCESSING_OVERFLOW = 17,  /**< a penalty or bias made a finite logit infinite */
  FAIRDRAW_ROW_INVALID_DRAFT_LENGTH = 18, /**< rows or lengths that do not fit, too long a path */
  FAIRDRAW_ROW_IMPOSSIBLE_DRAFT = 19,     /**< a draft that its own distribution never gives */
  FAIRDRAW_ROW_INVALID_DRAFT_TREE = 20, /**< a parent not before its child, or too many children */
  FAIRDRAW_ROW_INVALID_TOP_N_SIGMA = 23 /**< top_n_sigma is NaN, or below 0 and not -1 */
};

/** Place of the arrays of a call: in host memory, or on CUDA device 0, and then the call returns
   when its results are there. The structs themselves are host memory. */
#define FAIRDRAW_HOST_POINTERS 0u
#define FAIRDRAW_DEVICE_POINTERS 1u /**< CUDA device 0 */

/** Identity, abilities and promises of a plugin. */
typedef struct fairdraw_plugin_description {
  uint32_t struct_size; /**< size in the caller: write no field beyond it */
  uint32_t pointers;    /**< FAIRDRAW_HOST_POINTERS or FAIRDRAW_DEVICE_POINTERS */
  /** text of the plugin, valid until it is unloaded */
  const char* name;
  const char* version;   /**< version of the plugin, as shown in the report */
  const char* semantics; /**< a profile, as in `fairdraw list profiles` */
  /** deviations from the profile: "top_k_ties=any_k,greedy_below=1e-5"; NULL: none */
  const char* overrides;
  uint64_t abilities;  /**< FAIRDRAW_CAN_TOP_K and its neighbours, joined by | */
  uint64_t randomness; /**< FAIRDRAW_SEEDS_INDEPENDENT and its neighbours, joined by | */
} fairdraw_plugin_description;

/** FAIRDRAW_PLUGIN_ABI at the time of the build. */
extern FAIRDRAW_PLUGIN_EXPORT const uint32_t fairdraw_plugin_abi;
/* NOLINTEND(readability-identifier-naming) */

/** All of them return 0, or something else after they wrote a message, with its 0, into
   message[0 ... message_size). */

/** Fills the description, which comes zeroed except for struct_size. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description,
                                                        char* message, size_t message_size);

/** Samples one batch. Arrays are aligned to their type and no more; the logits may be unaligned.
   Writes the results that are not NULL; a row that has no token gets -1 and a status. Not 0: the
   whole call is refused. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message,
                                                   size_t message_size);

/** Computes one operation on rows. Only with one of FAIRDRAW_CAN_SOFTMAX and its neighbours. A
   plugin that has operations and no fairdraw_plugin_run is judged by these alone. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_run_operation(const fairdraw_operation* operation,
                                                             char* message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
