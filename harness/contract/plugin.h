/* A sampler in a shared library, for `fairdraw verify --sampler plugin:PATH`.
 *
 * The header is C11, and needs only the five headers next to it that it includes. A plugin defines
 * the first three of these symbols. It defines the fourth if it verifies drafted chains, the fifth
 * if it verifies requests with drafts, the sixth if it keeps the requests of a running batch, and
 * the seventh if it has operations on rows; a plugin that only has operations leaves out the third.
 *
 *     const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI;
 *     int32_t fairdraw_plugin_describe(fairdraw_plugin_description*, char*, size_t);
 *     int32_t fairdraw_plugin_run(const fairdraw_batch*, char*, size_t);
 *     int32_t fairdraw_plugin_run_chain(const fairdraw_chain*, char*, size_t);
 *     int32_t fairdraw_plugin_run_verification(const fairdraw_verification*, char*, size_t);
 *     int32_t fairdraw_plugin_run_event(const fairdraw_event*, char*, size_t);
 *     int32_t fairdraw_plugin_run_operation(const fairdraw_operation*, char*, size_t);
 *
 * A plugin is built by `cc -shared -fPIC`. The harness makes one call at a time. A plugin that
 * runs in a process of its own must not print, and must read and write only within the call's
 * arrays; violations are reported.
 *
 * Errors: A function returns 0, or another number after it has written a message, with its 0, into
 * message[0 ... message_size); then the whole call is refused. If only a row or a request fails, it
 * gets its status, and the function returns 0.
 *
 * Definition: docs/semantics.md and the profile that the plugin declares;
 * for drafts Leviathan et al. 2023, or Sun et al. 2024 for blocks. */
#ifndef FAIRDRAW_PLUGIN_H
#define FAIRDRAW_PLUGIN_H

#include "batch.h"
#include "drafts.h"
#include "operation.h"
#include "plugin_abi.h"
#include "sequence.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Verifies drafted chains. A plugin exports this function only with FAIRDRAW_CAN_CHAINS. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_run_chain(const fairdraw_chain* chain, char* message,
                                                         size_t message_size);

/** Verifies requests with drafted tokens. A plugin exports this function only with
 * FAIRDRAW_CAN_VERIFY. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_run_verification(
    const fairdraw_verification* speculation, char* message, size_t message_size);

/** Receives the events of the requests of a running batch. A plugin exports this function only with
 * FAIRDRAW_KEEPS_STATE. */
FAIRDRAW_PLUGIN_EXPORT int32_t fairdraw_plugin_run_event(const fairdraw_event* event, char* message,
                                                         size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
