"""Processor architectures, a folder each: boards, compilers, simulators, cycles, projects.

A new folder is found by being here; its module `definition` says in one `ARCHITECTURE` what
`kilotune.evaluators.architectures.architecture` asks for.
"""
