// Mutants that treat drafted ids outside the vocabulary wrongly: as other tokens, as rejected, or
// as absent.
#include <algorithm>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

using harness::DraftedTokens;

bool is_stray(std::int32_t token, std::size_t vocab) {
  return token < 0 || static_cast<std::size_t>(token) >= vocab;
}

std::int32_t clamped(std::int32_t token, std::size_t vocab) {
  return std::clamp(token, 0, static_cast<std::int32_t>(vocab) - 1);
}

constexpr Entry kStrays[] = {
    {"chain-stray-clamped",
     "a drafted id below 0 is token 0, one above the vocabulary the last token",
     By("chain/*/v31/* chain/*"),
     [](Chain& chain) {
       for (std::int32_t& token : chain.draft_tokens) token = clamped(token, chain.vocab);
     }},
    {"chain-stray-in-16-bits", "drafted ids are kept in 16 bits", By("chain/*/v31/* chain/*"),
     [](Chain& chain) {
       for (std::int32_t& token : chain.draft_tokens) {
         if (token > 0xffff) token &= 0xffff;
       }
     }},
    {"chain-last-stray-looked-over",
     "the last drafted id of a chain is not looked at: it is token 0", By("chain/*/v31/* chain/*"),
     [](Chain& chain) {
       if (chain.draft_tokens.empty() || !is_stray(chain.draft_tokens.back(), chain.vocab)) return;
       chain.draft_tokens.back() = 0;
     }},
    {"verify-stray-clamped", "of requests a drafted id that is no token is the one next to it",
     By("verify/*/v31/* verify/*"),
     [](DraftedTokens& request) {
       for (std::int32_t& token : request.drafted) token = clamped(token, request.vocab);
     }},
    {"verify-stray-rejected",
     "of requests a drafted id that is no token ends the drafts in front of it, and no more",
     By("verify/*/v31/* verify/*"),
     [](DraftedTokens& request) {
       if (request.tree || request.drafted.empty()) return;
       const auto stray = std::ranges::find_if(
           request.drafted, [&](std::int32_t token) { return is_stray(token, request.vocab); });
       if (stray == request.drafted.end()) return;
       const auto kept = static_cast<std::size_t>(stray - request.drafted.begin());
       request.drafted.resize(kept);
       request.target.resize(kept + 1);
       request.words.resize(kept + 1);
       if (!request.draft.empty()) request.draft.resize(kept);
     }},
    {"verify-tree-stray-below-root-clamped",
     "of trees only the children of the root are looked at: other ids that are no tokens are token "
     "0",
     By("verify/*/v31/* verify/*"),
     [](DraftedTokens& request) {
       for (std::size_t j = 0; request.tree && j < request.drafted.size(); ++j) {
         const bool stray = is_stray(request.drafted[j], request.vocab);
         if (stray && request.parents[j] != -1) request.drafted[j] = 0;
       }
     }},
};

}  // namespace

std::vector<Mutant> stray_draft_mutants() {
  return mutants_of("speculative", "", Base::distribution, kStrays);
}

}  // namespace fairdraw::suites
