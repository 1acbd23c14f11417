"""`python -m fairdraw audit`: judges a served model from outside, over any OpenAI-compatible server.

A response carries tokens and, of each position, the largest log-probabilities. These numbers are
the distribution that the next token has to follow under the claimed temperature and filters, so a
stream of tokens is as many tests, and no logits have to be fixed (`distribution`, `evidence`).
Seeds, n, stop strings and neighbours in the batch are judged by comparing outputs (`comparisons`),
some of them where no log-probability is reported, too. `plan` has the requests, `client` sends them,
`records` keeps them in a file from which `judge` can repeat the verdict without the server.
"""
