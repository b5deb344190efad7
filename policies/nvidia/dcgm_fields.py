"""The fields of DCGM: well-known names, the exporter's own, and what a misspelt name was meant to be."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_WELL_KNOWN = """
DCGM_FI_DRIVER_VERSION
DCGM_FI_NVML_VERSION
DCGM_FI_CUDA_DRIVER_VERSION
DCGM_FI_PROCESS_NAME
DCGM_FI_DEV_{COUNT,NAME,BRAND,SERIAL,UUID,GPU_UUID,MINOR_NUMBER,NVML_INDEX,PSTATE,FAN_SPEED,VIRTUAL_MODE,COMPUTE_MODE,CC_MODE}
DCGM_FI_DEV_{PERSISTENCE_MODE,MIG_MODE,MIG_MAX_SLICES,CUDA_COMPUTE_CAPABILITY,VBIOS_VERSION,AUTOBOOST}
DCGM_FI_DEV_{OEM,ECC,POWER}_INFOROM_VER
DCGM_FI_DEV_INFOROM_{IMAGE_VER,CONFIG_CHECK,CONFIG_VALID}
DCGM_FI_DEV_{SM,MEM,VIDEO}_CLOCK
DCGM_FI_DEV_APP_{SM,MEM}_CLOCK
DCGM_FI_DEV_MAX_{SM,MEM,VIDEO}_CLOCK
DCGM_FI_DEV_{CLOCK_THROTTLE_REASONS,CLOCKS_EVENT_REASONS}
DCGM_FI_DEV_CLOCKS_EVENT_REASON_{SW_POWER_CAP_NS,SYNC_BOOST_NS,SW_THERM_SLOWDOWN_NS,HW_THERM_SLOWDOWN_NS}
DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS
DCGM_FI_DEV_{GPU,MEMORY,SHUTDOWN,SLOWDOWN}_TEMP
DCGM_FI_DEV_{GPU,MEM}_MAX_OP_TEMP
DCGM_FI_DEV_GPU_TEMP_LIMIT
DCGM_FI_DEV_{POWER_USAGE,POWER_USAGE_INSTANT,ENFORCED_POWER_LIMIT,TOTAL_ENERGY_CONSUMPTION}
DCGM_FI_DEV_POWER_MGMT_LIMIT{,_MIN,_MAX,_DEF}
DCGM_FI_DEV_{GPU,MEM_COPY,ENC,DEC}_UTIL
DCGM_FI_DEV_{POWER,THERMAL,SYNC_BOOST,BOARD_LIMIT,LOW_UTIL,RELIABILITY}_VIOLATION
DCGM_FI_DEV_TOTAL_{APP,BASE}_CLOCKS_VIOLATION
DCGM_FI_DEV_FB_{TOTAL,FREE,USED,RESERVED,USED_PERCENT}
DCGM_FI_DEV_BAR1_{TOTAL,FREE,USED}
DCGM_FI_DEV_{XID_ERRORS,XID_ERROR}
DCGM_FI_DEV_ECC_{CURRENT,MODE,PENDING}
DCGM_FI_DEV_ECC_{SBE,DBE}_{VOL,AGG}_{TOTAL,L1,L2,DEV,REG,TEX,SHM,CBU,SRM}
DCGM_FI_DEV_RETIRED_{SBE,DBE,PENDING}
DCGM_FI_DEV_{CORRECTABLE_REMAPPED_ROWS,UNCORRECTABLE_REMAPPED_ROWS,ROW_REMAP_FAILURE,ROW_REMAP_PENDING}
DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_{MAX,HIGH,PARTIAL,LOW,NONE}
DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG
DCGM_FI_DEV_PCIE_{REPLAY_COUNTER,TX_THROUGHPUT,RX_THROUGHPUT,LINK_GEN,LINK_WIDTH,MAX_LINK_GEN,MAX_LINK_WIDTH}
DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS
DCGM_FI_DEV_{PCI_BUSID,PCI_BUS_ID,PCI_COMBINED_ID,PCI_SUBSYS_ID}
DCGM_FI_DEV_NVLINK_{CRC_FLIT,CRC_DATA,REPLAY,RECOVERY,ECC_DATA}_ERROR_COUNT_TOTAL
DCGM_FI_DEV_NVLINK_{CRC_FLIT,CRC_DATA,REPLAY,RECOVERY}_ERROR_COUNT_L#
DCGM_FI_DEV_NVLINK_{,TX_,RX_}BANDWIDTH_{TOTAL,L#}
DCGM_FI_DEV_NVLINK_COUNT_{TX,RX}_{BYTES,PACKETS}
DCGM_FI_DEV_NVLINK_COUNT_{TX_DISCARDS,RX_ERRORS,RX_SYMBOL_ERRORS,RX_REMOTE_ERRORS,RX_GENERAL_ERRORS}
DCGM_FI_DEV_NVLINK_COUNT_RX_{MALFORMED_PACKET,BUFFER_OVERRUN}_ERRORS
DCGM_FI_DEV_NVLINK_COUNT_{LOCAL_LINK_INTEGRITY_ERRORS,EFFECTIVE_ERRORS,EFFECTIVE_BER,SYMBOL_BER}
DCGM_FI_DEV_NVLINK_COUNT_{EFFECTIVE_BER_FLOAT,SYMBOL_BER_FLOAT,FEC_HISTORY_#}
DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_{EVENTS,SUCCESSFUL_EVENTS,FAILED_EVENTS}
DCGM_FI_DEV_NVSWITCH_{FATAL_ERRORS,NON_FATAL_ERRORS,TEMPERATURE_CURRENT,THROUGHPUT_TX,THROUGHPUT_RX}
DCGM_FI_DEV_NVSWITCH_POWER_{VDD,DVDD,HVDD}
DCGM_FI_DEV_NVSWITCH_LINK_{FLIT,CRC,ECC,REPLAY,RECOVERY}_ERRORS
DCGM_FI_DEV_NVSWITCH_LINK_{FATAL_ERRORS,NON_FATAL_ERRORS,THROUGHPUT_TX,THROUGHPUT_RX}
DCGM_FI_DEV_FABRIC_{MANAGER_STATUS,MANAGER_ERROR_CODE,CLUSTER_UUID,CLIQUE_ID,HEALTH_MASK,HEALTH_SUMMARY}
DCGM_FI_DEV_VGPU_{LICENSE_STATUS,MEMORY_USAGE,VM_ID,VM_NAME,TYPE,UUID,DRIVER_VERSION,FRAME_RATE_LIMIT,PCI_ID}
DCGM_FI_DEV_CPU_UTIL_{TOTAL,USER,NICE,SYS,IRQ}
DCGM_FI_DEV_CPU_TEMP_{CURRENT,WARNING,CRITICAL}
DCGM_FI_DEV_{CPU_CLOCK_CURRENT,CPU_POWER_UTIL_CURRENT,CPU_POWER_LIMIT,CPU_VENDOR,CPU_MODEL}
DCGM_FI_DEV_{SYSIO,MODULE}_POWER_UTIL_CURRENT
DCGM_FI_PROF_{GR_ENGINE_ACTIVE,SM_ACTIVE,SM_OCCUPANCY,DRAM_ACTIVE}
DCGM_FI_PROF_PIPE_{TENSOR,FP64,FP32,FP16,INT,TENSOR_IMMA,TENSOR_HMMA,TENSOR_DFMA}_ACTIVE
DCGM_FI_PROF_{PCIE,NVLINK}_{TX,RX}_BYTES
DCGM_FI_PROF_NVLINK_L#_{TX,RX}_BYTES
DCGM_FI_PROF_{NVDEC,NVJPG}#_ACTIVE
DCGM_FI_PROF_{NVOFA0,NVOFA1}_ACTIVE
DCGM_FI_PROF_C2C_{TX,RX}_{ALL,DATA}_BYTES
dcgm_{sm_clock,memory_clock,memory_temp,gpu_temp,power_usage,total_energy_consumption,pcie_replay_counter}
dcgm_pcie_{tx,rx}_throughput
dcgm_{gpu,mem_copy,enc,dec}_utilization
dcgm_{power,thermal,sync_boost,board_limit,low_util,reliability}_violation
dcgm_{fb_free,fb_used,nvlink_bandwidth_total}
dcgm_ecc_{sbe,dbe}_{volatile,aggregate}_total
dcgm_retired_pages_{sbe,dbe,pending}
dcgm_nvlink_{flit_crc,data_crc,replay,recovery}_error_count_total
dcgm_fi_prof_{gr_engine_active,sm_active,sm_occupancy,pipe_tensor_active,dram_active,pcie_tx_bytes,pcie_rx_bytes}
"""
"""One line has the names that its braces spell out; `#` is the number of a link or of an engine.

Names in small letters are those of DCGM exporter 1. Source: github.com/NVIDIA/dcgm-exporter etc/default-counters.csv,
etc/dcp-metrics-included.csv, etc/1.x-compatibility-metrics.csv; DCGM's API reference, field identifiers.
"""

EXPORTER_FIELDS = (
    "DCGM_EXP_CLOCK_EVENTS_COUNT",
    "DCGM_EXP_XID_ERRORS_COUNT",
    "DCGM_EXP_GPU_HEALTH_STATUS",
    "DCGM_EXP_P2P_STATUS",
)
"""The fields that the exporter computes itself; the list is complete."""

STRINGS = frozenset(
    f"DCGM_FI_{name}"
    for name in (
        *("DRIVER_VERSION", "NVML_VERSION", "DEV_NAME", "DEV_BRAND", "DEV_SERIAL", "DEV_UUID", "DEV_VBIOS_VERSION"),
        *("DEV_OEM_INFOROM_VER", "DEV_ECC_INFOROM_VER", "DEV_POWER_INFOROM_VER", "DEV_INFOROM_IMAGE_VER"),
    )
)
"""Well-known fields whose value is text, which only the type `label` can hold."""

BINARY = frozenset(
    f"DCGM_FI_{name}"
    for name in (
        *("DEV_BOARD_POWER_PROFILE_ENFORCED_MASK", "DEV_BOARD_POWER_PROFILE_REQUESTED_MASK"),
        *("DEV_BOARD_POWER_PROFILE_SUPPORTED_MASK", "DEV_ENFORCED_POWER_PROFILE_MASK", "DEV_ENC_STATS"),
        *("DEV_VALID_POWER_PROFILE_MASK", "DEV_CLOCKS_SUPPORTED", "DEV_SUPPORTED_CLOCKS", "DEV_COMPUTE_PIDS"),
        *("DEV_GRAPHICS_PIDS", "DEV_ACCOUNTING_DATA", "DEV_PROCESS_ACCOUNTING_STATS", "DEV_DIAG_STATUS"),
        "DEV_REQUESTED_POWER_PROFILE_MASK",
        *("DEV_FBC_STATS", "DEV_FBC_SESSIONS_INFO", "DEV_MIG_ATTRIBUTES", "DEV_MIG_CI_INFO", "DEV_MIG_GI_INFO"),
        *("DEV_CREATABLE_VGPU_TYPE_IDS", "DEV_SUPPORTED_VGPU_TYPE_IDS", "DEV_SUPPORTED_TYPE_INFO"),
        *("DEV_VGPU_CREATABLE_IDS", "DEV_VGPU_SUPPORTED_IDS", "DEV_VGPU_SUPPORTED_INFO", "DEV_VGPU_INSTANCE_IDS"),
        *("DEV_VGPU_INSTANCE_INFO", "DEV_VGPU_UTILIZATIONS", "DEV_VGPU_UTIL_INFO", "DEV_VGPU_PER_PROCESS_UTILIZATION"),
        *("DEV_VGPU_PROCESS_UTIL_INFO", "DEV_VGPU_ENC_STATS", "DEV_VGPU_ENC_SESSIONS_INFO", "DEV_VGPU_FBC_STATS"),
        *("DEV_VGPU_FBC_SESSIONS_INFO", "DEV_VGPU_TYPE_CLASS", "DEV_VGPU_TYPE_INFO", "DEV_VGPU_TYPE_LICENSE"),
        *("DEV_VGPU_TYPE_NAME", "GPU_TOPOLOGY_AFFINITY", "GPU_TOPOLOGY_NVLINK", "GPU_TOPOLOGY_PCI", "SYNC_BOOST"),
        *("SYSTEM_GPU_AFFINITY", "SYSTEM_GPU_SYNC_BOOST", "SYSTEM_NVLINK_TOPOLOGY", "SYSTEM_PCI_TOPOLOGY"),
    )
)
"""Fields whose value is binary, which the exporter cannot print. Source: github.com/NVIDIA/DCGM dcgmlib/src/dcgm_fields.cpp
and dcgmlib/dcgm_fields.h; dcgm-exporter internal/pkg/collector/gpu_collector.go toString."""

_NUMBERED = {"DCGM_FI_PROF_NVLINK": 18, "DCGM_FI_DEV_NVLINK": 18, "DCGM_FI_DEV_NVLINK_COUNT": 16, "DCGM_FI_PROF": 8}
"""The number of links, error counters or engines, by the first part of a name with a number."""

_WORDS = {
    "UTILIZATION": "UTIL",
    "UTILISATION": "UTIL",
    "TEMPERATURE": "TEMP",
    "MEMORY_CLOCK": "MEM_CLOCK",
    "FRAMEBUFFER": "FB",
    "VOLATILE": "VOL",
    "AGGREGATE": "AGG",
    "DCGM_FI_GPU_": "DCGM_FI_DEV_GPU_",
    "DCGM_FI_FB_": "DCGM_FI_DEV_FB_",
    "DCGM_FI_XID_": "DCGM_FI_DEV_XID_",
    "DCGM_FI_POWER_": "DCGM_FI_DEV_POWER_",
    "DCGM_FI_DEV_PROF_": "DCGM_FI_PROF_",
    "DCGM_FI_DEV_DRIVER_": "DCGM_FI_DRIVER_",
}
"""Words that people write, and those of DCGM."""

_BRACES = re.compile(r"\{([^{}]*)\}")
_NUMBERS = re.compile(r"[0-9]+")


def _spelled_out(line: str) -> Iterator[str]:
    pieces = _BRACES.split(line)
    for chosen in product(*(piece.split(",") if index % 2 else [piece] for index, piece in enumerate(pieces))):
        name = "".join(chosen)
        prefix = max((prefix for prefix in _NUMBERED if name.startswith(f"{prefix}_")), key=len, default="")
        numbers = range(_NUMBERED[prefix]) if "#" in name else range(1)
        yield from (name.replace("#", str(number)) for number in numbers)


FIELDS = frozenset(name for line in _WELL_KNOWN.split() for name in _spelled_out(line))
"""The well-known names, without the exporter's own."""

_BY_FORM = {_NUMBERS.sub("#", name): name for name in sorted(FIELDS, reverse=True)}


def meant_field(name: str) -> str | None:
    """The well-known field that a name was certainly meant to be; None for one that may exist.

    Certain are other capitals, words written out that DCGM shortens, and one wrong letter: that near to a well-known
    field there is no other one. Numbers are not letters: there are links with all kinds of them.
    """
    upper = name.upper()
    for written, right in _WORDS.items():
        if upper not in FIELDS:
            upper = upper.replace(written, right)
    if upper in FIELDS:
        return upper
    form = _NUMBERS.sub("#", upper)
    if form in _BY_FORM:
        return None
    return next((known for other, known in _BY_FORM.items() if _is_one_letter_off(form, other)), None)


def _is_one_letter_off(text: str, other: str) -> bool:
    """True if one letter is missing, added or wrong, or two neighbours are swapped."""
    if abs(len(text) - len(other)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    left, right = text[start:], other[start:]
    swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
    return swapped or left[1:] in (right, right[1:]) or left == right[1:]
