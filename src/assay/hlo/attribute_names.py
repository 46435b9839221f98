"""The names of attributes that XLA's text has, and what is special about some of them.

Source: hlo_parser.cc of openxla/xla (2026) and what jaxlib 0.4.13 to 0.12.0.1 print. A name that is not here does not
parse.
"""

from __future__ import annotations

COMPUTATION = ("to_apply", "calls", "condition", "body", "true_computation", "false_computation", "select", "scatter")
"""Attributes whose value is the name of one computation."""

COMPUTATIONS = ("branch_computations", "called_computations", "calls")
"""Attributes whose value is a list of computations in braces."""

REFERENCES = frozenset((*COMPUTATION, *COMPUTATIONS, "control-predecessors"))
"""Attributes that name computations or instructions: kept without `%`, printed with it."""

COMMON = (
    "sharding", "frontend_attributes", "statistics", "parameter_replication", "control-predecessors", "origin",
    "metadata",
    "backend_config", "result_accuracy", "outer_dimension_partitions",
)  # fmt: skip

INSTRUCTION_ATTRIBUTES = frozenset(
    (
        *COMMON, *COMPUTATION, *COMPUTATIONS,
        # data movement
        "dimensions", "iota_dimension", "inferred_dimension", "slice", "padding", "dynamic_slice_sizes",
        "slice_sizes", "index",
        "cross_program_prefetch_index", "is_cross_program_prefetch",
        # gather and scatter
        "offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
        "start_indices_batching_dims",
        "index_vector_dim", "indices_are_sorted", "unique_indices", "update_window_dims", "inserted_window_dims",
        "scatter_dims_to_operand_dims", "input_batching_dims", "scatter_indices_batching_dims",
        # dot and convolution
        "lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims", "lhs_ragged_dims",
        "rhs_group_dims",
        "operand_precision", "algorithm", "sparsity", "window", "dim_labels", "feature_group_count",
        "batch_group_count",
        "conv_kind", "convolution_kind", "block_scaling_config",
        "sparsity_config",
        # linear algebra, fft, random numbers, sorting
        "left_side", "lower", "unit_diagonal", "transpose_a", "fft_type", "fft_length", "distribution", "delta",
        "is_stable", "k",
        "largest", "epsilon", "feature_index",
        # arithmetic
        "direction", "type", "order", "exponent_bits", "mantissa_bits",
        # control flow, fusion, scan
        "kind", "is_composite", "num_carries", "is_reverse", "is_associative", "scan_dimension",
        "output_to_operand_aliasing",
        # custom calls
        "custom_call_target", "operand_layout_constraints", "custom_call_has_side_effect", "literal",
        "schedule", "api_version",
        "padding_type", "opaque", "custom_call_schedule",
        # collectives and communication
        "channel_id", "replica_groups", "constrain_layout", "use_global_device_ids", "source_target_pairs",
        "split_dimension",
        "is_host_transfer", "infeed_config", "outfeed_config", "outfeed_shape", "mode",
        "collective_op_group_mode", "group_mode",
        "has_dynamic_root",
        # asynchronous execution
        "async_execution_thread", "async_group_id",
        # sharding domains
        "domain",
    )
)  # fmt: skip

HEADER_ATTRIBUTES = frozenset(
    (
        "is_scheduled", "replica_count", "num_partitions", "input_output_alias", "buffer_donor",
        "alias_passthrough_params",
        "entry_computation_layout", "frontend_attributes", "allow_spmd_sharding_propagation_to_parameters",
        "allow_spmd_sharding_propagation_to_output", "origin_recovery_table",
    )
)  # fmt: skip

COMPUTATION_ATTRIBUTES = frozenset(("execution_thread",))
