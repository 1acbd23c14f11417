"""`python -m fairdraw audit`: judges a served model from outside, over any OpenAI-compatible server.

A response has tokens and, for each position, the largest log-probabilities. These log-probabilities
define the distribution that the next token must follow under the claimed temperature and filters.
So every token of a stream is a test, and prompts need no prepared logits (`distribution`,
`evidence`). Seeds, n, stop strings and neighbours in the batch are judged by comparing outputs
(`comparisons`), some of them even without log-probabilities. `plan` makes the requests, `client`
sends them, and `records` keeps them in a file from which `judge` can repeat the verdict without the
server.
"""
