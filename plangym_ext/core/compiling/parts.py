"""Numba functions compiled only as parts of their callers, linked as LLVM IR.

numba makes machine code of every function that a kernel calls, and optimises all that this
function calls along with it: a function five calls deep is optimised and translated six
times, and all copies but one are thrown away. A part is compiled only to text for the compiler
(LLVM's IR); it is optimised once, within the kernel. The kernel's machine code is the same. Parts
are not kept on disk, as they take less time to make than to read.
"""

# mypy: allow-untyped-calls
# numba's compiler has no types.

from __future__ import annotations

from typing import Any

from numba.core import compiler, registry, typed_passes, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass


class PartLibrary(JITCodeLibrary):
    """The IR of one function and of all that it calls, for others to be linked with."""

    def finalize(self) -> None:
        """Link the called functions, as every library does, without optimising them."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(typed_passes.NativeLowering):
    """Lowers a function to IR without compiling it to machine code."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Write the function's IR, and register it for the functions that call it."""
        context = state.targetctx
        state.library = PartLibrary(context.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        # In place of the machine code, by which numba tells functions apart: its dispatcher
        # takes functions of C only, and each of these is another one.
        name: Any = [].append
        lowered = state["cr"]
        context.insert_user_function(name, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=name)
        return True


class PartCompiler(compiler.CompilerBase):
    """numba's compiler without its last step."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual steps with `PartLowering` in place of `NativeLowering`."""
        steps: Any = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        part = PartLowering
        steps.passes = [
            (part if step is typed_passes.NativeLowering else step, about)
            for step, about in steps.passes
        ]
        steps.finalize()
        return [steps]


def _widened(kind: Any) -> Any:
    """Return the type that arguments of a type are passed as: int64 in place of int32."""
    kind = types.unliteral(kind)
    return types.int64 if kind == types.int32 else kind


#: For numba's decorators that take options for its compiler.
PART_OPTIONS: Any = {
    "pipeline_class": PartCompiler,
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
}


class _Written(registry.CPUDispatcher):
    """A part's stand-in for the kernel compiler: its IR for the types of each call."""

    _compiler: Any

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the function for a call with arguments of some types.

        An index may be a constant in one place, int32 in another and int64 in the next: one
        function takes them all. All that it calls would be compiled once more for each.
        """
        _, given = self._compiler.fold_argument_types(args, kws)
        return super().get_call_template(tuple(map(_widened, given)), {})

    def add_overload(self, result: Any) -> None:
        """Keep what was written; there is nothing that Python could call."""
        self.overloads[tuple(result.signature.args)] = result


class Part(registry.CPUDispatcher):
    """A function that kernels call, compiled as part of each of them.

    Called from Python it is a kernel of its own, which is compiled at its first call.

    Args:
        function: to compile.
        options: of numba's `njit`.
    """

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        options = {"nopython": True, **options}
        super().__init__(function, targetoptions=options)
        given = {**options, **PART_OPTIONS}
        self._written = _Written(
            function, targetoptions=given, pipeline_class=given.pop("pipeline_class")
        )

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the call template for kernels under compilation."""
        return self._written.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the name of the function that a kernel under compilation calls."""
        return self._written.get_overload(sig)
