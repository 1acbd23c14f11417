"""Judges a served model from outside, over any OpenAI-compatible server: `python -m fairdraw audit`.

A response has tokens and, for each position, the largest log-probabilities. These log-probabilities
define the distribution that the next token must follow under the claimed temperature and filters.
Every token of a stream is therefore a test, and prompts need no prepared logits (`distribution`,
`evidence`). Seeds, n, stop strings and neighbours in the batch are judged by comparing outputs
(`comparisons`). Some of these comparisons need no log-probabilities. `plan` makes the requests,
`client` sends the requests, and `records` keeps requests and responses in a file from which `judge`
can repeat the verdict without the server.
"""
