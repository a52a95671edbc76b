"""For tests, ours and those of plug-in authors: models whose answers are known, and ways to go wrong.

integer_model, torch_toy   models behind the contract of an Executor; oracle, torch_oracle: their definition
matrix, conformance        every way to run the same requests; what a scheduler or executor must pass
simulation                 whole engines on virtual time, each afternoon drawn from a seed
late_device, gate, drain   results that come late; messages held on their way; what is left behind
script_proposer, lying_proposer, proposer_conformance
                           drafts that a test dictates, answers that lie, and what a proposer must pass
placements, kill_runs      the same through a whole Engine; actors killed while requests stream
"""
