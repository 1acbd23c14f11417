/* A plugin that does what the environment says: FAIRDRAW_BAD names one of the ways below. Else it
 * is good at the little that it does: always the largest logit, which no distribution forbids in a draw. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/contract/plugin.h"

#ifdef BAD_ABI
const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI + 1;
#else
const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI;
#endif

/* Leaves a file where it was loaded. */
__attribute__((constructor)) static void loaded(void) {
  const char* const path = getenv("FAIRDRAW_BAD_PROOF");
  FILE* const file = path == NULL ? NULL : fopen(path, "w");
  if (file != NULL) fclose(file);
}

static int is(const char* way) {
  const char* const chosen = getenv("FAIRDRAW_BAD");
  return chosen != NULL && strcmp(chosen, way) == 0;
}

/* What follows `start` in the way that is chosen, if it begins so. */
static const char* after(const char* start) {
  const char* const chosen = getenv("FAIRDRAW_BAD");
  const size_t length = strlen(start);
  return chosen != NULL && strncmp(chosen, start, length) == 0 ? chosen + length : NULL;
}

static int32_t said(char* message, size_t size, const char* text) {
  snprintf(message, size, "%s", text);
  return 1;
}

int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description, char* message,
                                 size_t message_size) {
  if (is("describe-fails")) return said(message, message_size, "no licence found");
  if (is("describe-crashes")) raise(SIGABRT);
  if (is("describe-hangs")) pause();
  description->name = "bad";
  description->version = "0";
  description->semantics = is("unknown-profile") ? "vllm_toch" : "fairdraw";
  description->overrides = is("override")           ? "greedy_ties=any,greedy_below=1e-5"
                           : is("unknown-override") ? "greedy_ties=some"
                                                    : NULL;
  description->abilities = FAIRDRAW_CAN_INDICES | FAIRDRAW_CAN_NUM_SAMPLES | FAIRDRAW_CAN_TOP_K |
                           FAIRDRAW_PER_REQUEST_SEEDS;
  if (is("claims-masks")) description->abilities |= FAIRDRAW_REPORTS_MASK;
  const char* const bit = after("claims-bit-"); /* whatever it is, nothing is done for it */
  if (bit != NULL) description->abilities |= UINT64_C(1) << strtoul(bit, NULL, 10);
  if (is("claims-chains")) description->abilities |= FAIRDRAW_CAN_CHAINS;
  if (is("unknown-ability")) description->abilities |= UINT64_C(1) << 62;
  if (is("unknown-promise")) description->randomness |= UINT64_C(1) << 9;
  if (is("unknown-pointers")) description->pointers = 7;
  if (is("nameless")) description->name = NULL;
  if (is("device-pointers")) description->pointers = FAIRDRAW_DEVICE_POINTERS;
  description->randomness |= FAIRDRAW_REPLAYS_EQUAL;
  if (is("talks-while-loading")) puts("loading 3 shards");
  return 0;
}

#ifndef BAD_NO_RUN

static int32_t misbehave(const fairdraw_batch* batch, char* message, size_t message_size) {
  const int64_t tokens = batch->outputs * batch->num_samples;
  if (is("crash")) raise(SIGSEGV);
  if (is("write-nowhere")) *(volatile int32_t*)strtoul("4096", NULL, 10) = 1;
  if (is("abort")) abort();
  if (is("hang")) {
    for (;;) pause();
  }
  if (is("exit")) exit(7);
  if (is("print")) puts("debug: top_k = 50");
  if (is("print-stderr")) fputs("warning: slow path\n", stderr);
  if (is("print-and-crash")) {
    fputs("assertion failed: k <= vocab\n", stderr);
    abort();
  }
  if (is("print-forever")) {
    for (;;) puts("again and again and again and again and again and again");
  }
  if (is("close-files")) {
    for (int file = 0; file < 256; ++file) close(file);
  }
  if (is("children")) { /* that outlive it, and hold its files */
    const int there = open(getenv("FAIRDRAW_BAD_FIFO"), O_WRONLY);
    if (write(there, "x", 1) != 1) return said(message, message_size, "cannot write");
    if (fork() == 0) {
      for (;;) pause();
    }
    abort();
  }
  if (is("tell-rounding")) batch->tokens[0] = fegetround();
  if (is("change-rounding")) fesetround(FE_DOWNWARD);
  if (is("refuse")) return said(message, message_size, "out of tiles");
  if (is("refuse-silently")) return 1;
  if (is("write-behind-tokens")) batch->tokens[tokens] = 0;
  if (is("write-far-behind-tokens")) batch->tokens[tokens + 64] = 0;
  if (is("write-in-front-of-tokens")) batch->tokens[-1] = 0;
  if (is("write-logits")) memset((void*)(uintptr_t)batch->logits, 0x3f, 4);
  if (is("read-far-behind-logits")) {
    batch->tokens[0] = ((const volatile int32_t*)batch->logits)[batch->rows * batch->vocab + 64];
  }
  if (is("stack-overflow")) {
    volatile char frame[4096];
    frame[0] = 1;
    return misbehave(batch, message, message_size) + frame[0];
  }
  if (is("take-memory")) {
    for (int i = 0; i < 4096; ++i) {
      char* const block = malloc((size_t)1 << 20);
      if (block == NULL) abort();
      memset(block, 1, (size_t)1 << 20);
    }
  }
  return 0;
}

/* Tells where the arrays lie, for a test that asks for exactly two tokens. */
static void tell_addresses(const fairdraw_batch* batch) {
  const uint64_t logits = (uint64_t)(uintptr_t)batch->logits;
  const uint64_t tokens = (uint64_t)(uintptr_t)batch->tokens;
  memcpy(batch->tokens, is("tell-logits") ? &logits : &tokens, sizeof(logits));
}

int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message, size_t message_size) {
  for (int64_t output = 0; output < batch->outputs; ++output) {
    const int64_t row = batch->indices ? batch->indices[output] : output;
    const float* const logits = (const float*)batch->logits + row * batch->row_stride;
    int64_t best = 0;
    for (int64_t i = 0; i < batch->vocab; ++i) {
      if (logits[i] > logits[best]) best = i;
    }
    if (is("ids-beyond-vocab")) best = batch->vocab;
    if (is("ids-far-beyond-vocab")) best = INT32_MAX;
    if (is("ids-negative")) best = INT32_MIN + 1;
    for (int32_t sample = 0; sample < batch->num_samples; ++sample) {
      batch->tokens[output * batch->num_samples + sample] = (int32_t)best;
    }
  }
  if (is("tell-logits") || is("tell-tokens")) tell_addresses(batch);
  return misbehave(batch, message, message_size);
}

#endif
