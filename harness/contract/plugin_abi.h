/* Declares the functions that every plugin exports. The header plugin.h, which includes this one,
 * has the calls that a plugin may have in addition.
 *
 * Errors: A function returns 0, or another number after it has written a message, with its 0, into
 * message[0 ... message_size); then the whole call is refused. If only a row or a request fails, it
 * gets its status, and the function returns 0.
 *
 * Definition: docs/semantics.md and the profile that the plugin declares; FlashInfer
 * (flashinfer.sampling) for operations on rows. */
#ifndef FAIRDRAW_PLUGIN_ABI_H
#define FAIRDRAW_PLUGIN_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "operation.h"

/** Version of the plugin interface, which changes when the meaning or the layout of these headers
 * changes. Fields added at the end of a struct change neither: struct_size says how many fields
 * there are, and an ability says whether a plugin reads them. */
#define FAIRDRAW_PLUGIN_ABI 1u

#if defined(__GNUC__)
#define FAIRDRAW_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define FAIRDRAW_PLUGIN_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** fairdraw_batch.top_k. This is the first of the abilities: a check that needs an ability that the
 * plugin does not declare is skipped, and the report gives that reason. */
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
/** input 1 also with min_p together with top_k or top_p */
#define FAIRDRAW_CAN_FROM_PROBS_ALL_FILTERS (UINT64_C(1) << 12)
#define FAIRDRAW_CAN_CHAINS (UINT64_C(1) << 13) /**< verifies drafted chains */
/** draws with given random words: the token is the first survivor whose prefix sum exceeds
 * floor(word * total / 2^64), also in rows in which a seed would draw by proposals */
#define FAIRDRAW_CAN_SCRIPTED_WORDS (UINT64_C(1) << 14)
#define FAIRDRAW_REPORTS_STATUS (UINT64_C(1) << 15)   /**< fairdraw_batch.statuses */
#define FAIRDRAW_REPORTS_SUPPORT (UINT64_C(1) << 16)  /**< fairdraw_batch.support_size */
#define FAIRDRAW_REPORTS_MASK (UINT64_C(1) << 17)     /**< fairdraw_batch.mask */
#define FAIRDRAW_REPORTS_PROBS (UINT64_C(1) << 18)    /**< fairdraw_batch.probs */
#define FAIRDRAW_REPORTS_LOGPROBS (UINT64_C(1) << 19) /**< fairdraw_batch.logprob* */
/** a token depends on its row, parameters, seed and offset, and on nothing else */
#define FAIRDRAW_PER_REQUEST_SEEDS (UINT64_C(1) << 20)
/** uses the integer arithmetic of fairdraw's specification: tokens are compared bit for bit, and
 * drafts are accepted token-wise */
#define FAIRDRAW_EXACT_INTEGER (UINT64_C(1) << 21)
#define FAIRDRAW_CAN_PROCESSING (UINT64_C(1) << 22)  /**< fairdraw_batch.processing; host memory */
#define FAIRDRAW_CAN_TOP_N_SIGMA (UINT64_C(1) << 23) /**< fairdraw_processing.top_n_sigma */
#define FAIRDRAW_CAN_VERIFY (UINT64_C(1) << 24)      /**< verifies requests with drafts */
#define FAIRDRAW_CAN_DRAFT_TREES (UINT64_C(1) << 25) /**< the parents of drafts */
/** trees whose drafts have a known distribution: a draft_law other than 0, and siblings */
#define FAIRDRAW_CAN_DRAFT_TREE_LAWS (UINT64_C(1) << 26)
/** requests with drafts and processing, in host memory */
#define FAIRDRAW_CAN_VERIFY_PROCESSING (UINT64_C(1) << 27)
/** accepts each draft by a test of its own, with probability min(1, p / q). A plugin declares at
 * most one of this rule and the next. If a plugin declares neither rule, the emitted tokens must
 * have the target's distribution, and any drafts may be accepted. */
#define FAIRDRAW_ACCEPTS_TOKEN_WISE (UINT64_C(1) << 28)
/** decides jointly for a chain how many drafts are accepted (Sun et al. 2024, Algorithm 2) */
#define FAIRDRAW_ACCEPTS_BLOCK (UINT64_C(1) << 29)
#define FAIRDRAW_KEEPS_STATE (UINT64_C(1) << 30) /**< keeps the requests of a running batch */
/** fairdraw_processing.typical_p to adaptive_target */
#define FAIRDRAW_CAN_PROBABILITY_FILTERS (UINT64_C(1) << 31)
/** fairdraw_processing.penalty_window to top_p_reset_id, forced_tokens and dry_breakers */
#define FAIRDRAW_CAN_HISTORY_RULES (UINT64_C(1) << 32)
#define FAIRDRAW_CAN_MARK_BY_KEY (UINT64_C(1) << 33)          /**< mark_scheme 0 */
#define FAIRDRAW_CAN_MARK_BY_KEY_AND_SEED (UINT64_C(1) << 34) /**< mark_scheme 1 */
#define FAIRDRAW_CAN_MARK_GREEN_LIST (UINT64_C(1) << 35)      /**< mark_scheme 2 */
/** fairdraw_batch.report_* in report modes 0 and 1 */
#define FAIRDRAW_REPORTS_RAW (UINT64_C(1) << 40)
#define FAIRDRAW_REPORTS_PROCESSED (UINT64_C(1) << 41) /**< report modes 2 and 3 */
#define FAIRDRAW_RANKS_POSITION (UINT64_C(1) << 42)    /**< rank_rule 0 */
#define FAIRDRAW_RANKS_AT_LEAST (UINT64_C(1) << 43)    /**< rank_rule 1 */
/** softmax by fairdraw_plugin_run_operation; each kind of operation has its own bit */
#define FAIRDRAW_CAN_SOFTMAX (UINT64_C(1) << 44)
#define FAIRDRAW_CAN_LOG_SOFTMAX (UINT64_C(1) << 45)        /**< log_softmax */
#define FAIRDRAW_CAN_TOP_K_MASK_LOGITS (UINT64_C(1) << 46)  /**< top_k_mask_logits */
#define FAIRDRAW_CAN_MIN_P_MASK_LOGITS (UINT64_C(1) << 47)  /**< min_p_mask_logits */
#define FAIRDRAW_CAN_TOP_K_RENORM_PROBS (UINT64_C(1) << 48) /**< top_k_renorm_probs */
#define FAIRDRAW_CAN_TOP_P_RENORM_PROBS (UINT64_C(1) << 49) /**< top_p_renorm_probs */
/** the result of a mask of logits may be the memory of its values */
#define FAIRDRAW_MASKS_IN_PLACE (UINT64_C(1) << 50)
#define FAIRDRAW_OPERATES_IN_PLACE (UINT64_C(1) << 51) /**< the same for all other operations */
/** results of operations have the dtype of their rows; otherwise they are float32, except for
 * masked logits, which always have the dtype of their rows */
#define FAIRDRAW_OPERATIONS_KEEP_DTYPE (UINT64_C(1) << 52)

/** declines to answer bad rows, because the plugin's caller refuses them: NaN, parameters out of
 * range, no allowed token, an index that is no row, faulty drafts. A plugin promises to answer bad
 * rows, and to ignore flush modes, unless it declines with these bits. Declined promises are not
 * judged, and the report names them. */
#define FAIRDRAW_DECLINES_BAD_ROWS (UINT64_C(1) << 53)
/** computes in the caller's FTZ and DAZ modes, so that these modes may change results; a rounding
 * mode of the caller may not */
#define FAIRDRAW_DECLINES_FLUSH_MODES (UINT64_C(1) << 54)

/** draws of different seeds, also neighbours, are independent. This bit and the next five are
 * promises about random bits; a promise that is not made is not tested. */
#define FAIRDRAW_SEEDS_INDEPENDENT (UINT64_C(1) << 0)
/** draws of different offsets of one seed are independent */
#define FAIRDRAW_OFFSETS_INDEPENDENT (UINT64_C(1) << 1)
/** outputs of a call with a scalar seed are independent */
#define FAIRDRAW_OUTPUTS_INDEPENDENT (UINT64_C(1) << 2)
/** samples of one output are independent */
#define FAIRDRAW_SAMPLES_INDEPENDENT (UINT64_C(1) << 3)
/** acceptance, recovery and bonus of a chain are independent */
#define FAIRDRAW_PURPOSES_INDEPENDENT (UINT64_C(1) << 4)
#define FAIRDRAW_REPLAYS_EQUAL (UINT64_C(1) << 5) /**< equal seeds and offsets give equal draws */

/* NOLINTBEGIN(readability-identifier-naming): names as C has them */
/** The reason why a row has no token: the values of fairdraw_batch.statuses under the semantics
 * fairdraw. If several reasons apply, the first of these counts:
 *   1. index_out_of_range: the index of an output is no row, so that no row is read
 *   2. inactive
 *   3. parameters: temperature, top_k, top_p, min_p, then penalties, then min_tokens, then
 *      top_n_sigma, then the filters by probability, then the rules of histories; whether a list
 *      makes use of them or not
 *   4. all values of the row as given, banned or not: nan_input, then infinite_input, then, for
 *      rows of probabilities, negative_probability
 *   5. lists of processing: invalid_history (prompt, output, output_counts, output_lengths), then
 *      invalid_logit_bias (ids and values, also of an id that is listed again later), then
 *      invalid_min_tokens (a stop id), invalid_bad_words, invalid_allowed_ids
 *   6. processing_overflow
 *   7. no_allowed_token
 *
 * The header drafts.h gives the order for requests with drafts. A bad row does not affect other
 * rows. */
enum fairdraw_row_status {
  FAIRDRAW_ROW_OK = 0,                   /**< no fault: the output has its tokens */
  FAIRDRAW_ROW_INACTIVE = 1,             /**< marked as padding */
  FAIRDRAW_ROW_NAN_INPUT = 2,            /**< a value of the row is NaN, at a banned id too */
  FAIRDRAW_ROW_INFINITE_INPUT = 3,       /**< a value of the row is +inf, at a banned id too */
  FAIRDRAW_ROW_NEGATIVE_PROBABILITY = 4, /**< a probability below zero */
  FAIRDRAW_ROW_NO_ALLOWED_TOKEN = 5,     /**< all tokens are -inf, banned or of probability 0 */
  FAIRDRAW_ROW_INVALID_TEMPERATURE = 6,  /**< temperature not 0 and not in [2^-126, 2^64] */
  FAIRDRAW_ROW_INVALID_TOP_K = 7,        /**< top_k below -1 */
  FAIRDRAW_ROW_INVALID_TOP_P = 8,        /**< top_p not in [0, 1] */
  FAIRDRAW_ROW_INVALID_MIN_P = 9,        /**< min_p not in [0, 1] */
  FAIRDRAW_ROW_INDEX_OUT_OF_RANGE = 10,  /**< an index that is no row, a draft that is no token */
  FAIRDRAW_ROW_INVALID_HISTORY = 11,     /**< fault in prompt, output or their counts */
  FAIRDRAW_ROW_INVALID_PENALTY = 12, /**< repetition, frequency or presence penalty out of range */
  FAIRDRAW_ROW_INVALID_LOGIT_BIAS = 13, /**< bias NaN, +inf or beyond 2^64, or a wrong id */
  FAIRDRAW_ROW_INVALID_MIN_TOKENS = 14, /**< min_tokens below 0, or a stop id that is no token */
  FAIRDRAW_ROW_INVALID_BAD_WORDS = 15,  /**< a bad word of wrong length, or a wrong id */
  /** an entry of forced_tokens that is no token, or of allowed_ids where no token is forced */
  FAIRDRAW_ROW_INVALID_ALLOWED_IDS = 16,
  FAIRDRAW_ROW_PROCESSING_OVERFLOW = 17,  /**< a penalty or bias made a finite logit infinite */
  FAIRDRAW_ROW_INVALID_DRAFT_LENGTH = 18, /**< wrong number of rows or drafts, too long a path */
  FAIRDRAW_ROW_IMPOSSIBLE_DRAFT = 19,     /**< a draft of probability 0 in its distribution */
  FAIRDRAW_ROW_INVALID_DRAFT_TREE = 20,  /**< a parent not before its child, or too many children */
  FAIRDRAW_ROW_INVALID_TOP_N_SIGMA = 23, /**< top_n_sigma is NaN, or below 0 and not -1 */
  /** a filter by probability is not in [0, 1] */
  FAIRDRAW_ROW_INVALID_PROBABILITY_FILTER = 26,
  /** a rule of histories is out of its range */
  FAIRDRAW_ROW_INVALID_HISTORY_RULE = 27
};

/** All arrays of a call are in host memory. */
#define FAIRDRAW_HOST_POINTERS 0u
/** All arrays of a call are on CUDA device 0, and the call returns when its results are there. The
 * structs themselves are in host memory. */
#define FAIRDRAW_DEVICE_POINTERS 1u

/** The identity, abilities and promises of a plugin. */
typedef struct fairdraw_plugin_description {
  uint32_t struct_size; /**< size of the caller's struct, beyond which nothing is written */
  uint32_t pointers;    /**< FAIRDRAW_HOST_POINTERS or FAIRDRAW_DEVICE_POINTERS */
  /** name of the plugin; all texts must be valid until the plugin is unloaded */
  const char* name;
  const char* version;   /**< version of the plugin, as shown in the report */
  const char* semantics; /**< a profile that `fairdraw list profiles` shows */
  /** deviations from the profile: "top_k_ties=any_k,greedy_below=1e-5"; NULL: none */
  const char* overrides;
  uint64_t abilities;  /**< bits from FAIRDRAW_CAN_TOP_K on, joined by | */
  uint64_t randomness; /**< bits from FAIRDRAW_SEEDS_INDEPENDENT on, joined by | */
} fairdraw_plugin_description;

/** The value of FAIRDRAW_PLUGIN_ABI when the plugin was built. */
extern FAIRDRAW_PLUGIN_EXPORT const uint32_t fairdraw_plugin_abi;
/* NOLINTEND(readability-identifier-naming) */

/** Fills the description, which is all zeros except for struct_size. Returns 0; after an error it
 * writes a message, terminated by 0, into message[0 ... message_size) and returns another value, as
 * the other functions do. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description,
                                                        char* message, size_t message_size);

/** Samples one batch, and writes the results that are not NULL. Arrays are only aligned to their
 * type, and the logits may be unaligned. A row without a token gets the token -1 and a status. A
 * return value other than 0 refuses the whole call. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message,
                                                   size_t message_size);

/** Computes one operation on rows. A plugin exports this function only if it declares an operation,
 * FAIRDRAW_CAN_SOFTMAX or the like. A plugin that has operations and no fairdraw_plugin_run is
 * judged by its operations alone. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_run_operation(const fairdraw_operation* operation,
                                                             char* message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
