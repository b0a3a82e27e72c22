"""`python -m tests.mutants` lists every mutant."""

from tests.mutants import callback, gate, proof

for mutant in (*callback.CHECKS, *gate.CHECKS, *proof.CHECKS):
    print(f"{mutant.name:24} {mutant.file}: {mutant.old.strip()} -> {mutant.new}")
