/* This plugin misbehaves in one of the ways below, which the environment variable FAIRDRAW_BAD
 * selects. Apart from that the plugin is correct: it always draws the largest logit, which no
 * distribution forbids in a single draw. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "harness/contract/plugin.h"

#ifdef BAD_ABI
const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI + 1;
#else
const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI;
#endif

static int is(const char* way) {
  const char* const chosen = getenv("FAIRDRAW_BAD");
  return chosen != NULL && strcmp(chosen, way) == 0;
}

/* Creates a file as proof that the plugin was loaded. */
__attribute__((constructor)) static void loaded(void) {
  const char* const path = getenv("FAIRDRAW_BAD_PROOF");
  FILE* const file = path == NULL ? NULL : fopen(path, "w");
  if (file != NULL) fclose(file);
  if (is("constructor-exits")) exit(0);
}

/* Returns the rest of the name of the selected way after `start`, or NULL if the name does not
 * begin with `start`. */
static const char* after(const char* start) {
  const char* const chosen = getenv("FAIRDRAW_BAD");
  const size_t length = strlen(start);
  return chosen != NULL && strncmp(chosen, start, length) == 0 ? chosen + length : NULL;
}

/* These lines imitate other output; each is begun by one of the control characters that can
 * begin a line. */
#define TEXT_OF_LINES "1.0\nforged: 9 passed\r\nforged: 0 failed\rforged\033[2K\v\x7f\n"

static int32_t said(char* message, size_t size, const char* text) {
  snprintf(message, size, "%s", text);
  return 1;
}

int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description, char* message,
                                 size_t message_size) {
  if (is("describe-fails-in-lines")) return said(message, message_size, TEXT_OF_LINES);
  if (is("describe-fails")) return said(message, message_size, "no licence found");
  if (is("describe-crashes")) raise(SIGABRT);
  if (is("describe-hangs")) pause();
  if (is("describe-exits")) exit(0);
  if (is("describe-leaves")) _exit(0);
  description->name = "bad";
  description->version = is("escapes")            ? "\033[31mgreen\033[2K\n\033]0;title\a"
                         : is("version-in-lines") ? TEXT_OF_LINES
                                                  : "0";
  description->semantics = is("unknown-profile")      ? "vllm_toch"
                           : is("semantics-in-lines") ? TEXT_OF_LINES
                                                      : "fairdraw";
  description->overrides = is("override")           ? "greedy_ties=any,greedy_below=1e-5"
                           : is("unknown-override") ? "greedy_ties=some"
                                                    : NULL;
  description->abilities = FAIRDRAW_CAN_INDICES | FAIRDRAW_CAN_NUM_SAMPLES | FAIRDRAW_CAN_TOP_K |
                           FAIRDRAW_PER_REQUEST_SEEDS;
  if (is("claims-masks")) description->abilities |= FAIRDRAW_REPORTS_MASK;
  const char* const bit = after("claims-bit-"); /* sets this bit without having the ability */
  if (bit != NULL) description->abilities |= UINT64_C(1) << strtoul(bit, NULL, 10);
  if (after("keeps-requests") != NULL) description->abilities |= FAIRDRAW_KEEPS_STATE;
  if (is("claims-chains")) description->abilities |= FAIRDRAW_CAN_CHAINS;
  if (is("unknown-ability")) description->abilities |= UINT64_C(1) << 62;
  if (is("unknown-promise")) description->randomness |= UINT64_C(1) << 9;
  if (is("unknown-pointers")) description->pointers = 7;
  if (is("nameless")) description->name = NULL;
  if (is("device-pointers")) description->pointers = FAIRDRAW_DEVICE_POINTERS;
  description->randomness |= FAIRDRAW_REPLAYS_EQUAL;
  if (after("generator-of-") != NULL) {
    description->abilities &= ~FAIRDRAW_PER_REQUEST_SEEDS;
    description->randomness = FAIRDRAW_OUTPUTS_INDEPENDENT | FAIRDRAW_SAMPLES_INDEPENDENT;
  }
  if (is("talks-while-loading")) puts("loading 3 shards");
  return 0;
}

#ifndef BAD_NO_RUN

/* Returns the starting state of a generator that the process seeds by itself. */
static uint64_t start_of_generator(const char* from) {
  uint64_t start = 0;
  if (strcmp(from, "entropy") == 0 && getrandom(&start, sizeof(start), 0) != sizeof(start)) abort();
  if (strcmp(from, "seconds") == 0) start = (uint64_t)time(NULL);
  if (strcmp(from, "process") == 0) start = (uint64_t)getpid();
  return start;
}

/* Draws from flat unfiltered rows with the generator splitmix64, and ignores the seeds. */
static void draw_from_own_generator(const fairdraw_batch* batch, const char* from) {
  static uint64_t state = 0;
  static int started = 0;
  if (!started) state = start_of_generator(from) * UINT64_C(0xd1342543de82ef95);
  started = 1;
  for (int64_t i = 0; i < batch->outputs * batch->num_samples; ++i) {
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    batch->tokens[i] = (int32_t)((x ^ (x >> 31)) % (uint64_t)batch->vocab);
  }
}

/* Holds the write end of a named pipe open as long as the process exists. The test reads the
 * other end of the pipe. */
static void hold_the_pipe(void) {
  const int there = open(getenv("FAIRDRAW_BAD_FIFO"), O_WRONLY);
  if (write(there, "x", 1) != 1) abort();
}

/* Starts a daemon, which is no child of this process and not in its session or group. Returns
 * once the daemon holds the pipe open, because the judge may end the daemon at any time after
 * that. */
static void start_a_daemon(void) {
  int ready[2];
  char byte = 0;
  if (pipe(ready) != 0) abort();
  if (fork() != 0) {
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) abort();
    close(ready[0]);
    return;
  }
  setsid();
  if (fork() != 0) _exit(0);
  hold_the_pipe();
  if (write(ready[1], "x", 1) != 1) abort();
  sleep(60); /* sleeps longer than the test waits */
  _exit(0);
}

static int32_t misbehave(const fairdraw_batch* batch, char* message, size_t message_size) {
  const int64_t tokens = batch->outputs * batch->num_samples;
  if (after("daemon") != NULL) start_a_daemon();
  if (is("crash")) raise(SIGSEGV);
  if (is("write-nowhere")) *(volatile int32_t*)strtoul("4096", NULL, 10) = 1;
  if (is("abort")) abort();
  if (is("kill-keeper")) {
    kill(getppid(), SIGKILL);
    for (;;) pause();
  }
  if (is("hang") || is("daemon-and-hang")) {
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
  if (is("children")) { /* children that outlive the plugin, and hold its files open */
    hold_the_pipe();
    if (fork() == 0) {
      for (;;) pause();
    }
    abort();
  }
  if (is("daemon-and-crash")) abort();
  if (is("exit-well")) exit(0);
  if (is("leave-well")) _exit(0);
  if (is("slow")) {
    const struct timespec tenth = {0, 100000000};
    nanosleep(&tenth, NULL);
  }
  if (is("stop-the-judge")) { /* stops the judge for longer than the time limit of the test */
    const pid_t judge = (pid_t)strtoul(getenv("FAIRDRAW_BAD_JUDGE"), NULL, 10);
    const struct timespec seconds = {2, 500000000}, tenth = {0, 100000000};
    kill(judge, SIGSTOP);
    nanosleep(&seconds, NULL);
    kill(judge, SIGCONT);
    nanosleep(&tenth, NULL); /* the judge is gone when this process continues */
  }
  const char* const bytes = after("send-"); /* sends bytes, and then another answer */
  if (bytes != NULL) {
    char text[65536] = {2}; /* AnswerKind::ran */
    send(3, text, strtoul(bytes, NULL, 10), 0);
  }
  if (is("forge-message")) { /* sends a text given in hexadecimal digits, which the test chooses */
    const char* const digits = getenv("FAIRDRAW_BAD_MESSAGE");
    char text[65536];
    size_t size = 0;
    for (unsigned byte = 0; sscanf(digits + 2 * size, "%2x", &byte) == 1;)
      text[size++] = (char)byte;
    send(3, text, size, 0);
  }
  if (is("unmask-traps")) feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_INEXACT);
  if (is("tell-rounding")) batch->tokens[0] = fegetround();
  if (is("change-rounding")) fesetround(FE_DOWNWARD);
  if (is("refuse")) return said(message, message_size, "out of tiles");
  if (is("refuse-in-lines")) return said(message, message_size, TEXT_OF_LINES);
  if (is("refuse-silently")) return 1;
  if (is("write-behind-tokens")) batch->tokens[tokens] = 0;
  if (is("write-far-behind-tokens")) batch->tokens[tokens + 64] = 0;
  if (is("write-in-front-of-tokens")) batch->tokens[-1] = 0;
  if (is("write-400k-behind-tokens")) batch->tokens[tokens + 100000] = 0;
  if (is("write-2m-behind-tokens")) batch->tokens[tokens + 500000] = 0;
  if (is("write-2k-in-front-of-tokens")) batch->tokens[-500] = 0;
  if (is("write-20k-in-front-of-tokens")) batch->tokens[-5000] = 0;
  if (is("write-4m-in-front-of-tokens")) batch->tokens[-1000000] = 0;
  if (is("write-20k-in-front-of-logits")) ((int32_t*)(uintptr_t)batch->logits)[-5000] = 0;
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

/* Reports the addresses of the arrays, for a test that requests exactly two tokens. */
static void tell_addresses(const fairdraw_batch* batch) {
  const uint64_t logits = (uint64_t)(uintptr_t)batch->logits;
  const uint64_t tokens = (uint64_t)(uintptr_t)batch->tokens;
  memcpy(batch->tokens, is("tell-logits") ? &logits : &tokens, sizeof(logits));
}

/* Returns the token with the largest logit, or -1 if the row has no token. */
static int64_t best_of(const fairdraw_batch* batch, int64_t row) {
  if (row < 0 || row >= batch->rows) return -1;
  const float temperature = batch->temperature[row], top_p = batch->top_p[row];
  const int32_t top_k = batch->top_k[row];
  if (!(temperature == 0 || (temperature >= 0x1p-126F && temperature <= 0x1p64F))) return -1;
  if (top_k < -1 || !(top_p >= 0 && top_p <= 1)) return -1;
  if (!(batch->min_p[row] >= 0 && batch->min_p[row] <= 1)) return -1;
  const float* const logits = (const float*)batch->logits + row * batch->row_stride;
  int64_t best = 0;
  for (int64_t i = 0; i < batch->vocab; ++i) {
    if (!(logits[i] < INFINITY)) return -1; /* NaN, too */
    if (logits[i] > logits[best]) best = i;
  }
  return logits[best] > -INFINITY ? best : -1;
}

int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message, size_t message_size) {
  for (int64_t output = 0; output < batch->outputs; ++output) {
    int64_t best = best_of(batch, batch->indices ? batch->indices[output] : output);
    if (is("ids-beyond-vocab")) best = batch->vocab;
    if (is("ids-far-beyond-vocab")) best = INT32_MAX;
    if (is("ids-negative")) best = INT32_MIN + 1;
    for (int32_t sample = 0; sample < batch->num_samples; ++sample) {
      batch->tokens[output * batch->num_samples + sample] = (int32_t)best;
    }
  }
  if (is("tell-logits") || is("tell-tokens")) tell_addresses(batch);
  const char* const generator = after("generator-of-");
  if (generator != NULL) draw_from_own_generator(batch, generator);
  return misbehave(batch, message, message_size);
}

int32_t fairdraw_plugin_run_event(const fairdraw_event* event, char* message, size_t message_size) {
  static int32_t last[64]; /* by slot */
  if (event->kind != FAIRDRAW_EVENT_STEP) {
    if (is("keeps-requests-and-crashes") && event->kind == FAIRDRAW_EVENT_END) raise(SIGSEGV);
    if (is("keeps-requests-to-itself") && event->kind == FAIRDRAW_EVENT_RESTORE) {
      return said(message, message_size, "once gone is gone");
    }
    return 0;
  }
  for (int64_t row = 0; row < event->rows; ++row) {
    const float* const logits = (const float*)event->logits + row * event->vocab;
    int32_t best = 0;
    for (int32_t i = 0; i < event->vocab; ++i) {
      if (logits[i] > logits[best]) best = i;
    }
    const int32_t slot = event->slot[row];
    event->tokens[row] = is("keeps-requests-too-long") ? last[slot] : best;
    last[slot] = best;
  }
  if (is("keeps-requests-and-writes")) event->tokens[event->rows] = 0;
  return 0;
}

#endif
