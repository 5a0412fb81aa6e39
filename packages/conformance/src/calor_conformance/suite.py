"""All checks in their order, which is the same on every machine and for every device."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from .checks import (
    advice,
    aliased_tensors,
    alike_plans,
    alike_values,
    announced,
    around_constants,
    asked_memory,
    assigned_then_ended,
    at_many_sizes,
    autocasting,
    averaged_weights,
    axes_of_functions,
    axes_without_elements,
    beyond_thresholds,
    bound_histories,
    branches_on_sizes,
    broadcast_operands,
    calls,
    captured_loops,
    carries_of_dtypes,
    casts_at_ties,
    casts_there_and_back,
    certain_outcomes,
    chains_of_moves,
    changed_between_passes,
    changed_quotas,
    changed_settings,
    changed_weights,
    collected_gradients,
    collectives,
    commands_of_onnx,
    complex_parts,
    complex_points,
    composites,
    constant_operands,
    contracts_of_devices,
    counts_left,
    crossings,
    damaged_caches,
    damaged_files,
    declarations,
    defaults,
    distributions,
    documented,
    domains_of_functions,
    drawn_equations,
    drawn_exchange,
    drawn_files,
    drawn_gradients,
    drawn_histories,
    drawn_learning,
    drawn_leaves,
    drawn_matrices,
    drawn_memory,
    drawn_models,
    drawn_modules,
    drawn_networks,
    drawn_optimizers,
    drawn_parametrizations,
    drawn_pictures,
    drawn_programs,
    drawn_resizes,
    drawn_searches,
    drawn_sizes,
    drawn_supplies,
    drawn_updates,
    drawn_views,
    drawn_weights,
    driven_averages,
    driven_callbacks,
    driven_hooks,
    driven_layers,
    driven_learner,
    driven_metrics,
    driven_training,
    empty_leaves,
    ended_objects,
    ended_work,
    ends_of_integers,
    entrances_of_arrays,
    errors,
    evaluated_modules,
    examples_of_onnx,
    explained_arguments,
    exported_models,
    exported_programs,
    extreme_points,
    factored_systems,
    failing_loops,
    features,
    figures_of_servers,
    files_of_numpy,
    forms_of_arguments,
    forms_of_rules,
    found_nans,
    fresh_objects,
    function_dtypes,
    given_devices,
    gradients,
    graphs,
    grids_of_axes,
    hard_orders,
    history,
    holders_of_values,
    host_arrays,
    host_calls,
    imported_models,
    index_dtypes,
    index_forms,
    interrupted_work,
    jit_states,
    jitted_calls,
    jitted_steps,
    joined_requests,
    joint_probabilities,
    layer_states,
    layers,
    lent_addresses,
    lent_models,
    limited_tables,
    limits,
    long_sums,
    loops_with_state,
    lowered_transforms,
    many_updates,
    mapped_forms,
    mapped_states,
    mapping,
    masks_beside_axes,
    measured_speeds,
    members_alone,
    memory,
    methods_of_copies,
    mirror_images,
    modes,
    modules,
    moves_in_loops,
    mutated_containers,
    namesakes,
    narrow_indices,
    near_patterns,
    neighbours,
    nested_modes,
    nested_sequences,
    nested_transforms,
    non_finite,
    numbers_in_transforms,
    numbers_of_sizes,
    one_option_apart,
    opened_twice,
    operated_servers,
    options_of_layers,
    orders_of_axes,
    orders_of_keys,
    orders_of_views,
    paired_options,
    pairs_of_dtypes,
    parameter_forms,
    partial_states,
    partitions,
    passed_on_failures,
    persistence,
    planned_placements,
    points,
    printed,
    probabilities,
    process_memory,
    properties,
    protocol,
    python_values,
    raised_once,
    random_bits,
    reach_of_dropout,
    reached_states,
    read_elsewhere,
    real_bins,
    recorded_calls,
    recorded_refusals,
    registered_containers,
    replaced_statics,
    restarted_servers,
    results_of_transforms,
    routed_flows,
    routed_programs,
    row_ends,
    served_devices,
    served_limits,
    served_models,
    served_together,
    sessions_again,
    settings_between_modes,
    settings_of_environment,
    several_of_a_class,
    shared_memory,
    shared_objects,
    shown_runs,
    sizes,
    sizes_of_maps,
    skipped_steps,
    slopes,
    slopes_of_lines,
    small_results,
    special_decades,
    spread_operands,
    state,
    states_after_failures,
    states_at_sizes,
    states_saved_once,
    stored,
    stored_trees,
    streams,
    sum_errors,
    thread_work,
    threads,
    tiny_complements,
    told_errors,
    told_work,
    training,
    training_forms,
    transfers,
    transforms,
    types_of_operators,
    unread_parts,
    uses_again,
    values,
    ways_of_models,
    weight_files,
    where_state_lives,
    whole_derivatives,
    writes_at_once,
    wrong_uses,
)
from .checks.base import TIERS, Check
from .checks.rows import main_dtype
from .collecting import paused_collections
from .rows.language import Case
from .rows.tables import CASES
from .selection import PROFILES


def of_rows(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield the checks of rows.

    Parameters
    ----------
    cases : sequence of Case
        Rows of the suite, or of a package's own functions.

    Yields
    ------
    Check
        Checks of values, special values, shapes, views, composites, modes, mapping and gradients.
    """
    yield from values.values(cases)
    yield from values.special_values(cases)
    yield from values.shapes(cases)
    yield from values.views(cases)
    yield from spread_operands.spread_operands(cases)
    yield from composites.composites(cases)
    yield from modes.modes(cases)
    yield from modes.gradient_modes(cases)
    yield from mapping.mapping(cases)
    yield from gradients.gradients(cases)
    yield from gradients.second_order(cases)
    yield from gradients.forward_mode(cases)


_CONTRACTS = (
    declarations,
    features,
    limits,
    transfers,
    memory,
    announced,
    random_bits,
    distributions,
    streams,
    errors,
    non_finite,
    state,
    graphs,
    partitions,
    history,
    sizes,
    at_many_sizes,
    threads,
    thread_work,
    beyond_thresholds,
    calls,
    stored,
    process_memory,
    limited_tables,
    collectives,
)


def _contracts() -> Iterator[Check]:
    for module in _CONTRACTS:
        yield from module.CHECKS
    yield from points.refusals()
    yield from points.points()
    yield from sizes.sizes()
    yield from at_many_sizes.each_op()
    yield from drawn_sizes.drawn_sizes()
    yield from around_constants.around_constants()
    yield from protocol.protocol(CASES)
    yield from properties.elementwise(CASES)
    yield from properties.searches()
    yield from neighbours.neighbours()
    yield from namesakes.namesakes()
    yield from layers.layers()
    yield from modules.modules()
    yield from python_values.python_values()
    yield from damaged_files.damaged_files()
    yield from stored_trees.stored_trees()
    yield from drawn_resizes.drawn_resizes()
    yield from certain_outcomes.certain_outcomes()
    yield from restarted_servers.restarted_servers()
    yield from damaged_caches.damaged_caches()
    yield from alike_plans.alike_plans()
    yield from documented.documented()
    yield from defaults.defaults()
    yield from function_dtypes.function_dtypes()
    yield from given_devices.given_devices()
    yield from recorded_calls.recorded_calls()
    yield from recorded_refusals.recorded_refusals()
    yield from weight_files.weight_files()
    yield from whole_derivatives.whole_derivatives()
    yield from probabilities.probabilities()
    yield from joint_probabilities.joint_probabilities()
    yield from training.training()
    yield from training_forms.training_forms()
    yield from index_forms.index_forms()
    yield from axes_of_functions.axes_of_functions()
    yield from axes_without_elements.axes_without_elements()
    yield from orders_of_axes.orders_of_axes()
    yield from hard_orders.hard_orders()
    yield from broadcast_operands.broadcast_operands()
    yield from index_dtypes.index_dtypes()
    yield from casts_at_ties.casts_at_ties()
    yield from casts_there_and_back.casts_there_and_back()
    yield from long_sums.long_sums()
    yield from sum_errors.sum_errors()
    yield from tiny_complements.tiny_complements()
    yield from special_decades.special_decades()
    yield from members_alone.members_alone()
    yield from drawn_equations.drawn_equations()
    yield from row_ends.row_ends()
    yield from unread_parts.unread_parts()
    yield from paired_options.paired_options()
    yield from one_option_apart.one_option_apart()
    yield from options_of_layers.options_of_layers()
    yield from parameter_forms.parameter_forms()
    yield from distributions.families()
    yield from crossings.crossings()
    yield from transforms.transforms()
    yield from nested_transforms.nested_transforms()
    yield from numbers_in_transforms.numbers_in_transforms()
    yield from results_of_transforms.results_of_transforms()
    yield from lowered_transforms.lowered_transforms()
    yield from collected_gradients.collected_gradients()
    yield from loops_with_state.loops_with_state()
    yield from captured_loops.captured_loops()
    yield from near_patterns.near_patterns()
    yield from drawn_programs.drawn_programs()
    yield from found_nans.found_nans()
    yield from host_calls.host_calls()
    yield from mapped_forms.mapped_forms()
    yield from registered_containers.registered_containers()
    yield from sizes_of_maps.sizes_of_maps()
    yield from drawn_gradients.gradients_of_drawn()
    yield from slopes.slopes()
    yield from extreme_points.extreme_points()
    yield from slopes_of_lines.slopes_of_lines()
    yield from domains_of_functions.domains_of_functions()
    yield from drawn_histories.histories()
    yield from drawn_memory.drawn_memory()
    yield from drawn_exchange.drawn_exchange()
    yield from host_arrays.host_arrays()
    yield from files_of_numpy.files_of_numpy()
    yield from drawn_views.drawn_views()
    yield from drawn_weights.drawn_weights()
    yield from shared_memory.shared_memory()
    yield from alike_values.alike_values()
    yield from drawn_learning.drawn_learning()
    yield from drawn_leaves.drawn_leaves()
    yield from drawn_files.drawn_files()
    yield from drawn_modules.drawn_modules()
    yield from layer_states.layer_states()
    yield from drawn_parametrizations.drawn_parametrizations()
    yield from evaluated_modules.evaluated_modules()
    yield from drawn_optimizers.drawn_optimizers()
    yield from drawn_searches.drawn_searches()
    yield from averaged_weights.averaged_weights()
    yield from reach_of_dropout.reach_of_dropout()
    yield from states_saved_once.states_saved_once()
    yield from nested_modes.nested_modes()
    yield from nested_sequences.nested_sequences()
    yield from ended_work.ended_work()
    yield from ended_objects.ended_objects()
    yield from interrupted_work.interrupted_work()
    yield from uses_again.uses_again()
    yield from orders_of_views.orders_of_views()
    yield from drawn_updates.drawn_updates()
    yield from where_state_lives.where_state_lives()
    yield from small_results.small_results()
    yield from changed_settings.changed_settings()
    yield from settings_of_environment.settings_of_environment()
    yield from asked_memory.asked_memory()
    yield from printed.printed()
    yield from told_errors.told_errors()
    yield from failing_loops.failing_loops()
    yield from passed_on_failures.passed_on_failures()
    yield from advice.advice()
    yield from complex_parts.complex_parts()
    yield from complex_points.complex_points()
    yield from mirror_images.mirror_images()
    yield from real_bins.real_bins()
    yield from jit_states.jit_states()
    yield from explained_arguments.explained_arguments()
    yield from reached_states.reached_states()
    yield from aliased_tensors.aliased_tensors()
    yield from mapped_states.mapped_states()
    yield from jitted_calls.jitted_calls()
    yield from jitted_steps.jitted_steps()
    yield from bound_histories.bound_histories()
    yield from wrong_uses.wrong_uses()
    yield from persistence.kept_values()
    yield from writes_at_once.writes_at_once()
    yield from autocasting.autocasting()
    yield from drawn_networks.networks()
    yield from branches_on_sizes.branches_on_sizes()
    yield from numbers_of_sizes.numbers_of_sizes()
    yield from carries_of_dtypes.carries_of_dtypes()
    yield from changed_between_passes.changed_between_passes()
    yield from constant_operands.constant_operands(CASES)
    yield from entrances_of_arrays.entrances_of_arrays()
    yield from fresh_objects.fresh_objects()
    yield from holders_of_values.holders_of_values()
    yield from changed_weights.changed_weights()
    yield from replaced_statics.replaced_statics()
    yield from imported_models.imported_models()
    yield from examples_of_onnx.examples_of_onnx()
    yield from types_of_operators.types_of_operators()
    yield from ways_of_models.ways_of_models()
    yield from commands_of_onnx.commands_of_onnx()
    yield from drawn_models.drawn_models()
    yield from exported_models.exported_models()
    yield from exported_programs.exported_programs()
    yield from routed_programs.routed_programs()
    yield from routed_flows.routed_flows()
    yield from served_devices.served_devices()
    yield from figures_of_servers.figures_of_servers()
    yield from contracts_of_devices.contracts_of_devices()
    yield from operated_servers.operated_servers()
    yield from changed_quotas.changed_quotas()
    yield from planned_placements.planned_placements()
    yield from measured_speeds.measured_speeds()
    yield from factored_systems.factored_systems()
    yield from drawn_matrices.drawn_matrices()
    yield from served_models.served_models()
    yield from served_limits.served_limits()
    yield from served_together.served_together()
    yield from joined_requests.joined_requests()
    yield from drawn_pictures.drawn_pictures()
    yield from told_work.told_work()
    yield from shown_runs.shown_runs()
    yield from read_elsewhere.read_elsewhere()
    yield from chains_of_moves.chains_of_moves()
    yield from forms_of_arguments.forms_of_arguments()
    yield from forms_of_rules.forms_of_rules()
    yield from masks_beside_axes.masks_beside_axes()
    yield from pairs_of_dtypes.pairs_of_dtypes()
    yield from counts_left.counts_left()
    yield from grids_of_axes.grids_of_axes()
    yield from partial_states.partial_states()
    yield from settings_between_modes.settings_between_modes()
    yield from moves_in_loops.moves_in_loops()
    yield from empty_leaves.empty_leaves()
    yield from shared_objects.shared_objects()
    yield from states_after_failures.states_after_failures()
    yield from raised_once.raised_once()
    yield from several_of_a_class.several_of_a_class()
    yield from skipped_steps.skipped_steps()
    yield from lent_addresses.lent_addresses()
    yield from lent_models.lent_models()
    yield from drawn_supplies.drawn_supplies()
    yield from driven_averages.driven_averages()
    yield from driven_callbacks.driven_callbacks()
    yield from driven_hooks.driven_hooks()
    yield from driven_layers.driven_layers()
    yield from driven_learner.driven_learner()
    yield from driven_metrics.driven_metrics()
    yield from driven_training.driven_training()
    yield from sessions_again.sessions_again()
    yield from opened_twice.opened_twice()
    yield from narrow_indices.narrow_indices()
    yield from many_updates.many_updates()
    yield from orders_of_keys.orders_of_keys()
    yield from mutated_containers.mutated_containers()
    yield from methods_of_copies.methods_of_copies()
    yield from assigned_then_ended.assigned_then_ended()
    yield from ends_of_integers.ends_of_integers()
    yield from states_at_sizes.states_at_sizes()


def _narrow() -> Iterator[Check]:
    """Yield the rows of specialized profiles in the profile's dtype instead of float32."""
    for profile in PROFILES.values():
        main = profile.main
        if main is None:
            continue
        own = [
            replace(c, dtypes=(main,))
            for c in CASES
            if main in c.dtypes and main_dtype(c) is not main and c.op in (profile.ops or ())
        ]
        for family in (protocol.protocol, values.shapes, values.views, modes.modes):
            yield from (replace(check, profiles=(profile.name,)) for check in family(own))


@cache
def checks() -> Mapping[str, Check]:
    """Return every check by its name, those of the basic tier first.

    Returns
    -------
    mapping of str to Check
        The checks.

    Examples
    --------
    >>> from calor_conformance import suite
    >>> suite.checks()["values/add/float32"].op
    'add'
    """
    with paused_collections():
        found = [*_contracts(), *of_rows(CASES), *_narrow()]
    counts = Counter(c.name for c in found)
    twice = [name for name, n in counts.items() if n > 1]
    assert not twice, f"two checks have one name: {twice[:5]}"
    found.sort(key=lambda c: TIERS.index(c.tier))
    return {c.name: c for c in found}


@cache
def digest() -> str:
    """Return the digest of the suite's source, which changes with every check."""
    folder = Path(__file__).parent
    files = sorted(folder.rglob("*.py"))
    return digest_of([(str(p.relative_to(folder)), p.read_bytes()) for p in files])


def digest_of(files: Sequence[tuple[str, bytes]]) -> str:
    """Return one digest of named contents."""
    made = hashlib.sha256()
    for name, content in files:
        made.update(f"{name.replace(chr(92), '/')}\0{len(content)}\0".encode())
        made.update(content)
    return made.hexdigest()
