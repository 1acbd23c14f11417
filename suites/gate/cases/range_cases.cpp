#include "suites/gate/cases/range_cases.h"

#include <algorithm>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {
namespace {

using harness::Family;

constexpr std::int64_t kOddVocab = 50257;  // the vocabulary of GPT-2, an odd number

class Cases {
 public:
  // Adds one case with one operation per row.
  void add(Case entry, const std::string& name, std::vector<Operation> operations) {
    entry.rows = std::max(entry.rows, static_cast<std::int64_t>(operations.size()));
    if (entry.check == Check::tokens) entry.draws = static_cast<std::uint64_t>(2 * entry.rows);
    if (entry.check == Check::support) entry.draws = static_cast<std::uint64_t>(64 * entry.rows);
    entry.literal = name.starts_with("edges");
    entry.operations = std::move(operations);
    cases_.push_back({std::move(entry), name});
  }

  // Adds one case of masks, and one case of tokens for samplers that claim the exact arithmetic.
  void add_both(Case entry, const std::string& name, const std::vector<Operation>& operations) {
    entry.check = Check::mask;
    add(entry, name, operations);
    entry.check = Check::tokens;
    add(entry, name, operations);
  }

  // Adds a case of draws from a single row.
  void add_draws(Check check, const Input& input, const char* operation, std::uint64_t draws,
                 double declared, bool banned = false) {
    Case entry{.suite = Suite::gate, .check = check, .input = input, .banned_tokens = banned};
    entry.draws = draws;
    entry.declared_discrepancy = declared;
    entry.once = true;
    cases_.push_back(named_case(std::move(entry), operation));
  }

  std::vector<NamedCase> take() { return std::move(cases_); }

 private:
  std::vector<NamedCase> cases_;
};

Case gate(const Input& input, Check check = Check::mask) {
  return {.suite = Suite::gate, .check = check, .input = input};
}

// Adds vocabularies that have one id more or one id fewer than vectors, warps, blocks, tiles and 16
// bits hold.
void add_widths(Cases& cases) {
  for (const std::int64_t vocab :
       {3,    4,    5,    7,    8,    9,    15,    16,    17,    32,    33,    63,    64,   65,
        127,  128,  129,  255,  256,  257,  511,   512,   513,   1023,  1024,  1025,  2047, 2048,
        2049, 4095, 4096, 4097, 8191, 8193, 16383, 16385, 32767, 32769, 65535, 65536, 65537}) {
    cases.add_both(gate(family_input(Family::tile_ends, vocab)), "everyday", everyday_operations());
  }
  // The case has 64 rows, so that greedy rows have their maximum at each kind of tile end.
  Case many = gate(family_input(Family::tile_ends, kOddVocab));
  many.rows = 64;
  const std::vector<Operation> short_list = {
      parse_operation("greedy"), parse_operation("top_k_5/t2"), parse_operation("greedy"),
      parse_operation("top_p_0.5/t0.3")};
  cases.add_both(many, "short", short_list);
  for (const std::int64_t vocab : {kLargeVocab - 1, kLargeVocab + 1, std::int64_t{1048575}}) {
    cases.add_both(gate(family_input(Family::tile_ends, vocab)), "short", short_list);
  }
  cases.add(gate(family_input(Family::tile_ends, kOddVocab), Check::support), "everyday",
            everyday_operations());
  cases.add(gate(family_input(Family::tile_ends, kOddVocab), Check::replay), "everyday",
            everyday_operations());
  Case probs = gate(family_input(Family::tile_ends, kOddVocab), Check::tokens);
  probs.from_probs = true;
  cases.add(probs, "everyday", without_min_p(everyday_operations()));
  // If a sampler without masks loses the last token, bets and binomial tests detect the loss.
  cases.add_draws(Check::binomial, family_input(Family::tile_ends, 4097), "none/t1", 200'000,
                  0.015);
  cases.add_draws(Check::bets, family_input(Family::tile_ends, kOddVocab), "none/t1", 200'000,
                  0.03);
}

void add_parameters(Cases& cases) {
  for (const Family family : {Family::gaussian, Family::bf16_rounded}) {
    cases.add_both(gate(family_input(family, kLargeVocab)), "large_k",
                   large_k_operations(kLargeVocab));
  }
  for (const Family family : {Family::gaussian, Family::gaussian_wide, Family::peaked,
                              Family::ties_at_k, Family::bf16_rounded, Family::tile_ends}) {
    cases.add_both(gate(family_input(family, 1000)), "scattered", scattered_operations(1000, 96));
  }
  cases.add_both(gate(family_input(Family::gaussian_wide, 32003)), "scattered",
                 scattered_operations(32003, 48));
  Case banned = gate(family_input(Family::gaussian_wide, 1000));
  banned.banned_tokens = true;
  cases.add_both(banned, "scattered", scattered_operations(1000, 96));
  std::vector<Operation> rules = scattered_operations(1000, 96);
  for (Operation& operation : rules) {
    operation.tie_rule = TieRule::lowest_id;
    operation.filter_order = FilterOrder::joint;
  }
  cases.add_both(gate(family_input(Family::bf16_rounded, 1000)), "scattered+lowest_id+joint",
                 rules);
}

// Adds bans and ties, in rows of many tiles and in every dtype.
void add_bans_and_ties(Cases& cases) {
  for (const std::int64_t vocab : {kOddVocab, kLargeVocab}) {
    Case banned = gate(family_input(Family::gaussian_wide, vocab));
    banned.banned_tokens = true;
    cases.add_both(banned, "everyday", everyday_operations());
    banned.check = Check::support;
    cases.add(banned, "everyday", everyday_operations());
  }
  Case banned = gate(family_input(Family::gaussian_wide, 1000), Check::support);
  banned.banned_tokens = true;
  cases.add(banned, "everyday", everyday_operations());
  banned.check = Check::probabilities;
  cases.add(banned, "everyday", everyday_operations());
  cases.add_draws(Check::chi_squared, family_input(Family::gaussian_wide, 1000), "top_p_0.9/t1",
                  1'000'000, 0.015, true);
  std::vector<Operation> lowest = everyday_operations();
  for (Operation& operation : lowest) operation.tie_rule = TieRule::lowest_id;
  for (const Family family : {Family::ties_at_k, Family::bf16_rounded}) {
    cases.add_both(gate(family_input(family, kOddVocab)), "everyday+lowest_id", lowest);
  }
  // Only rows with ties show whether a tie rule is left over from another call.
  cases.add(gate(family_input(Family::ties_at_k, 1000), Check::replay), "everyday",
            everyday_operations());
  cases.add(gate(family_input(Family::ties_at_k, 1000), Check::replay), "everyday+lowest_id",
            lowest);
  cases.add_both(gate(family_input(Family::all_equal, kLargeVocab)), "everyday",
                 everyday_operations());
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const Family family : {Family::subnormal, Family::signed_zeros, Family::masked,
                                Family::ties_at_k, Family::all_negative, Family::huge_range}) {
      // most values of huge_range would overflow in float16
      if (family == Family::huge_range && dtype == DType::float16) continue;
      cases.add_both(gate(family_input(family, 1000, dtype)), "edges", edge_operations(1000));
    }
    Case entry = gate(family_input(Family::gaussian_wide, 1000, dtype));
    entry.banned_tokens = true;
    cases.add_both(entry, "everyday", everyday_operations());
    entry = gate(family_input(Family::gaussian_wide, 1000, dtype), Check::probabilities);
    cases.add(entry, "everyday", everyday_operations());
    entry = gate(family_input(Family::gaussian_wide, 1000, dtype), Check::replay);
    entry.from_probs = true;
    cases.add(entry, "everyday", without_min_p(everyday_operations()));
  }
}

void add_chains(Cases& cases) {
  Case entry = gate(family_input(Family::tile_ends, 1027), Check::chain);
  entry.rows = 24;
  cases.add(entry, "none/t1", {parse_operation("none/t1")});
}

}  // namespace

std::vector<NamedCase> range_cases() {
  Cases cases;
  add_widths(cases);
  add_parameters(cases);
  add_bans_and_ties(cases);
  add_chains(cases);
  return cases.take();
}

}  // namespace fairdraw::suites
