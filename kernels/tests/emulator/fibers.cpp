// This file runs the grid of a launch as fibers (emulator.h).
//
// The emulator runs one cluster after the other. The warps of a cluster run in turns. Within a
// warp, each ready lane runs until it waits or exits, and this repeats until no lane is ready. If
// no thread of the cluster is ready and some have not exited, the kernel is deadlocked, and the
// program ends. Fibers are used because 8192 operating system threads would take minutes instead of
// milliseconds.
#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/emulator/emulator.h"

namespace fairdraw::emulator {
namespace {

namespace context = boost::context::detail;

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = std::size_t{96} << 10;
// room for the static and dynamic shared memory of a block
constexpr std::size_t kSharedBytes = std::size_t{512} << 10;
constexpr std::size_t kMaxDynamic = std::size_t{227} << 10;  // of compute capability 9.0
constexpr std::size_t kGuardBytes = 256;
constexpr int kUnwritten = 0xcd;

struct Copy {
  void* to;
  const void* from;
  unsigned bytes;
};

enum class State { ready, in_warp, in_block, in_barrier, in_cluster, exited };

struct Block;

struct Thread {
  Position position;
  Block* block = nullptr;
  unsigned warp = 0, lane = 0;
  context::fcontext_t context = nullptr;
  State state = State::ready;
  bool has_arrived = false;  // true if the thread has arrived at the cluster's barrier, but has not
                             // waited yet
  unsigned arrived_phase = 0;  // phase of the cluster's barrier when the thread arrived
  std::uint32_t met = 0;       // result of meet_block() for this thread
  std::vector<Copy> open;      // copies that have not been committed
  std::vector<std::vector<Copy>> committed;
};

struct Warp {
  std::uint32_t arrived = 0;  // one bit for each lane that has arrived
  std::uint32_t exited = 0;
  WarpOperation operation{};
  Lanes posted{}, result{};
};

struct Cluster;

/// A numbered barrier.
struct Barrier {
  unsigned arrived = 0, expected = 0;
  std::uint32_t sum = 0;
  std::vector<Thread*> waiting;
};

struct Block {
  Position position;
  Cluster* cluster = nullptr;
  unsigned char* shared = nullptr;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
  unsigned running = 0, arrived = 0;
  BlockOperation operation{};
  std::uint32_t sum = 0;
};

struct Cluster {
  std::vector<Block> blocks;
  unsigned threads = 0, exited = 0;
  unsigned phase = 0, arrived = 0;
  unsigned exited_before_arriving = 0;  // in this phase
};

/// The running launch.
struct Launch {
  const std::function<void()>* kernel = nullptr;
  Position block_size, grid_size;
  std::size_t dynamic_bytes = 0;
  // offsets of shared variables, the same in all blocks
  std::map<std::pair<std::string, int>, std::size_t> variables;
  std::size_t next_variable = 0;
};

Launch launch;
Thread* current = nullptr;
context::fcontext_t scheduler = nullptr;

void suspend(State state) {
  current->state = state;
  scheduler = context::jump_fcontext(scheduler, nullptr).fctx;
}

void wake(Block& block, State state) {
  for (Thread& thread : block.threads) {
    if (thread.state == state) thread.state = State::ready;
  }
}

void release_block(Block& block) {
  for (Thread& thread : block.threads) {
    if (thread.state == State::in_block) thread.met = block.sum;
  }
  current->met = block.sum;
  block.sum = 0;
  block.arrived = 0;
  wake(block, State::in_block);
}

void release_cluster_if_all_came(Cluster& cluster) {
  if (cluster.arrived + cluster.exited_before_arriving < cluster.threads) return;
  ++cluster.phase;
  cluster.arrived = 0;
  cluster.exited_before_arriving = cluster.exited;
  for (Block& block : cluster.blocks) wake(block, State::in_cluster);
}

void note_exit(Thread& thread) {
  Block& block = *thread.block;
  Warp& warp = block.warps[thread.warp];
  if (warp.arrived != 0) fail("a lane exits while others of its warp wait for it");
  warp.exited |= 1U << thread.lane;
  --block.running;
  if (block.running > 0 && block.arrived == block.running) release_block(block);
  Cluster& cluster = *block.cluster;
  ++cluster.exited;
  const bool came = thread.has_arrived && thread.arrived_phase == cluster.phase;
  if (!came) ++cluster.exited_before_arriving;
  if (cluster.exited < cluster.threads) release_cluster_if_all_came(cluster);
}

void run_thread(context::transfer_t from) {
  scheduler = from.fctx;
  (*launch.kernel)();
  await_copies(0);
  note_exit(*current);
  suspend(State::exited);
}

/// Returns a block's shared memory, which the next cluster uses again.
unsigned char* shared_memory(std::size_t block) {
  static std::vector<unsigned char*> memory;
  while (memory.size() <= block) {
    memory.push_back(static_cast<unsigned char*>(std::aligned_alloc(4096, kSharedBytes)));
  }
  return memory[block];
}
char* stack(std::size_t thread) {
  static std::vector<char*> stacks;
  while (stacks.size() <= thread) {
    void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for stacks");
    stacks.push_back(static_cast<char*>(memory));
  }
  return stacks[thread];
}

void begin(Cluster& cluster, unsigned first_block, unsigned blocks) {
  const unsigned threads = launch.block_size.x;
  cluster.threads = blocks * threads;
  cluster.blocks.resize(blocks);
  for (unsigned rank = 0; rank < blocks; ++rank) {
    Block& block = cluster.blocks[rank];
    block.position = {first_block + rank, 0, 0};
    block.cluster = &cluster;
    block.shared = shared_memory(rank);
    std::memset(block.shared, kUnwritten, kSharedBytes);
    block.running = threads;
    block.warps.resize((threads + kWarp - 1) / kWarp);
    // Lanes that are missing in the last warp count as exited.
    if (threads % kWarp != 0) block.warps.back().exited = ~0U << (threads % kWarp);
    block.threads.resize(threads);
    for (unsigned number = 0; number < threads; ++number) {
      Thread& thread = block.threads[number];
      thread.position = {number, 0, 0};
      thread.block = &block;
      thread.warp = number / kWarp;
      thread.lane = number % kWarp;
      char* end = stack(std::size_t{rank} * threads + number) + kStackBytes;
      thread.context = context::make_fcontext(end, kStackBytes, run_thread);
    }
  }
}

/// Runs the lanes of a warp until none is ready. Returns whether at least one lane has run.
bool advance(Block& block, unsigned warp) {
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    const std::size_t end = std::min<std::size_t>(block.threads.size(), (warp + 1) * kWarp);
    for (std::size_t number = warp * kWarp; number < end; ++number) {
      Thread& thread = block.threads[number];
      if (thread.state != State::ready) continue;
      any = again = true;
      current = &thread;
      thread.context = context::jump_fcontext(thread.context, nullptr).fctx;
      current = nullptr;
    }
  }
  return any;
}

[[noreturn]] void fail_stuck(const Cluster& cluster) {
  std::array<unsigned, 6> threads{};
  for (const Block& block : cluster.blocks) {
    for (const Thread& thread : block.threads) ++threads[static_cast<std::size_t>(thread.state)];
  }
  fail("stuck: " + std::to_string(threads[1]) + " threads wait in warps, " +
       std::to_string(threads[2]) + " for their block, " + std::to_string(threads[3]) +
       " at a barrier with a number, " + std::to_string(threads[4]) + " for their cluster, " +
       std::to_string(threads[5]) + " have exited");
}

void run_cluster(unsigned first_block, unsigned blocks, std::mt19937* order) {
  Cluster cluster;
  begin(cluster, first_block, blocks);
  std::vector<std::pair<Block*, unsigned>> warps;
  for (Block& block : cluster.blocks) {
    for (unsigned warp = 0; warp < block.warps.size(); ++warp) warps.emplace_back(&block, warp);
  }
  while (cluster.exited < cluster.threads) {
    if (order != nullptr) std::shuffle(warps.begin(), warps.end(), *order);
    bool any = false;
    for (const auto& [block, warp] : warps) any = advance(*block, warp) || any;
    if (!any) fail_stuck(cluster);
  }
  for (const Block& block : cluster.blocks) {
    const unsigned char* guard = block.shared + launch.dynamic_bytes;
    if (std::any_of(guard, guard + kGuardBytes, [](int byte) { return byte != kUnwritten; })) {
      fail("bytes behind dynamic shared memory were written");
    }
  }
}

unsigned blocks_of_cluster(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
      return config.attrs[i].val.clusterDim.x;
    }
  }
  return 1;
}

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "emulator: %s", what.c_str());
  if (current != nullptr) {
    std::fprintf(stderr, " (block %u, thread %u)", current->block->position.x, current->position.x);
  }
  std::fputc('\n', stderr);
  std::abort();
}

Position thread_position() { return current->position; }
Position block_position() { return current->block->position; }
unsigned lane() { return current->lane; }
Position block_size() { return launch.block_size; }
Position grid_size() { return launch.grid_size; }
unsigned char* dynamic_shared() { return current->block->shared; }

void* shared_variable(const char* file, int line, std::size_t bytes, std::size_t alignment) {
  const auto [at, is_new] = launch.variables.try_emplace({file, line}, 0);
  if (is_new) {
    at->second = (launch.next_variable + alignment - 1) / alignment * alignment;
    launch.next_variable = at->second + bytes;
    if (launch.next_variable > kSharedBytes) fail("too much shared memory");
  }
  return current->block->shared + at->second;
}

void* shared_of_block(void* mine, int rank) {
  Block& block = *current->block;
  const auto offset = static_cast<unsigned char*>(mine) - block.shared;
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(kSharedBytes)) {
    fail("an address of another block is asked for what is not shared memory");
  }
  std::vector<Block>& blocks = block.cluster->blocks;
  if (rank < 0 || static_cast<std::size_t>(rank) >= blocks.size()) fail("no such block");
  Block& other = blocks[static_cast<std::size_t>(rank)];
  // Kernels may compute an address in another block's memory before they know whether they need the
  // address.
  if (other.running == 0)
    return nullptr;  // The other block has exited, so any use of the address
                     // must crash.
  return other.shared + offset;
}

const Lanes& exchange(WarpOperation operation, std::uint64_t value, unsigned mask) {
  if (mask != ~0U) fail("a mask that is not full");
  Warp& warp = current->block->warps[current->warp];
  if (warp.exited != 0) fail("a warp operation after lanes have exited");
  if (warp.arrived == 0) warp.operation = operation;
  if (warp.operation != operation) fail("lanes of a warp meet in different operations");
  warp.posted[current->lane] = value;
  warp.arrived |= 1U << current->lane;
  if (warp.arrived != ~0U) {
    suspend(State::in_warp);
    return warp.result;
  }
  // No lane overwrites `result` before all lanes have read it and arrived at the next operation.
  warp.result = warp.posted;
  warp.arrived = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    Thread& thread = current->block->threads[current->warp * kWarp + lane];
    if (thread.state == State::in_warp) thread.state = State::ready;
  }
  return warp.result;
}

std::uint32_t meet_block(BlockOperation operation, std::uint32_t value) {
  Block& block = *current->block;
  if (block.arrived == 0) block.operation = operation;
  if (block.operation != operation) fail("threads of a block meet in different barriers");
  block.sum += value;
  ++block.arrived;
  if (block.arrived == block.running) {
    release_block(block);
  } else {
    suspend(State::in_block);
  }
  return current->met;
}

std::uint32_t meet_at(unsigned barrier, unsigned threads, std::uint32_t value) {
  Barrier& place = current->block->barriers.at(barrier);
  if (place.arrived == 0) place.expected = threads;
  if (place.expected != threads) fail("threads come to a barrier with different numbers of them");
  place.sum += value;
  ++place.arrived;
  if (place.arrived < threads) {
    place.waiting.push_back(current);
    suspend(State::in_barrier);
    return current->met;
  }
  current->met = place.sum;
  for (Thread* thread : place.waiting) {
    thread->met = place.sum;
    thread->state = State::ready;
  }
  place = {};
  return current->met;
}

void arrive_at_cluster() {
  if (current->has_arrived) fail("a thread arrives at the cluster's barrier twice");
  Cluster& cluster = *current->block->cluster;
  current->has_arrived = true;
  current->arrived_phase = cluster.phase;
  ++cluster.arrived;
  release_cluster_if_all_came(cluster);
}

void wait_for_cluster() {
  if (!current->has_arrived) fail("a thread waits at the cluster's barrier and has not arrived");
  if (current->arrived_phase == current->block->cluster->phase) suspend(State::in_cluster);
  current->has_arrived = false;
}

void copy_later(void* to, const void* from, unsigned bytes) {
  current->open.push_back({to, from, bytes});
}
void commit_copies() {
  current->committed.push_back(std::move(current->open));
  current->open.clear();
}
void await_copies(unsigned left) {
  std::vector<std::vector<Copy>>& groups = current->committed;
  while (groups.size() > left) {
    for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
    groups.erase(groups.begin());
  }
}

void run(const cudaLaunchConfig_t& config, const std::function<void()>& kernel) {
  const unsigned cluster = blocks_of_cluster(config);
  const unsigned threads = config.blockDim.x;
  if (threads == 0 || threads > 1024) fail("no block has so many threads");
  if (config.gridDim.x % cluster != 0) fail("no whole clusters in the grid");
  if (config.dynamicSmemBytes > kMaxDynamic) fail("too much dynamic shared memory");
  launch = {};
  launch.kernel = &kernel;
  launch.block_size = {threads, 1, 1};
  launch.grid_size = {config.gridDim.x, 1, 1};
  launch.dynamic_bytes = config.dynamicSmemBytes;
  launch.next_variable = launch.dynamic_bytes + kGuardBytes;
  const char* seed = std::getenv("FAIRDRAW_EMULATOR_SEED");
  std::mt19937 order(seed == nullptr ? 0U : static_cast<unsigned>(std::atoi(seed)));
  for (unsigned first = 0; first < config.gridDim.x; first += cluster) {
    run_cluster(first, cluster, seed == nullptr ? nullptr : &order);
  }
}

}  // namespace fairdraw::emulator
