"""What podkeeper promises, as numbers: each with the most that it may be, and how it is drawn."""
import html

# Key of the figure, what it is, its unit, the most that it may be (None: told, not judged).
PROMISES = [
    ("start_ratio", "a pod starts: times Docker's own floor", "x", 1.05),
    ("react_ratio", "a killed container runs again: times Docker's own restart", "x", 1.0),
    ("burst_ratio", "20 pods at once: times Docker's own floor", "x", 1.05),
    ("remove_s", "a pod is gone after its manifest (grace 1 s)", "s", 1.5),
    ("binary_mib", "size of the program", "MiB", 6),
    ("first_call_s", "first call to Docker after exec", "s", 0.1),
    ("pss_0_mib", "memory (PSS) without pods", "MiB", 5),
    ("pss_10_mib", "memory (PSS) with 10 pods", "MiB", 5),
    ("pss_20_mib", "memory (PSS) with 20 pods", "MiB", None),
    ("pss_100_mib", "memory (PSS) with 100 pods", "MiB", 12),
    ("rss_0_mib", "memory (RSS) without pods", "MiB", None),
    ("rss_10_mib", "memory (RSS) with 10 pods", "MiB", None),
    ("rss_20_mib", "memory (RSS) with 20 pods", "MiB", None),
    ("rss_100_mib", "memory (RSS) with 100 pods", "MiB", None),
    ("threads_beside_pods", "threads beside one for each pod", "", 12),
    ("idle_cpu_percent", "processor time while nothing changes, 20 pods", "%", 0.1),
    ("idle_wakeups_per_s", "wake-ups while nothing changes, 20 pods", "/s", 1),
    ("idle_bytes_written", "bytes written while nothing changes", "B", 0),
    ("adopt_100_s", "100 running pods are known again after a restart", "s", 1),
    ("adopt_100_restarts", "containers that this restarted", "", 0),
    ("fake_ms_per_pod_10", "processor time for each of 10 pods (fake://)", "ms", None),
    ("fake_ms_per_pod_100", "processor time for each of 100 pods (fake://)", "ms", None),
    ("fake_ms_per_pod_1000", "processor time for each of 1,000 pods (fake://)", "ms", "fake_ms_per_pod_100"),
    ("fake_kib_per_pod_100", "memory for each of 100 pods (fake://)", "KiB", None),
    ("fake_kib_per_pod_1000", "memory for each of 1,000 pods (fake://)", "KiB", "fake_kib_per_pod_100"),
    ("servers_mib", "memory (PSS) that all servers add while nobody asks, 10 pods (fake://)", "MiB", 1.5),
    ("cadvisor_ms", "/metrics/cadvisor with 100 containers", "ms", 100),
    ("kubectl_ratio", "kubectl get pods, 100 pods: times a kube-apiserver", "x", 1.3),
    ("kubectl_ms", "kubectl get pods, 100 pods (fake://)", "ms", None),
    ("kubectl_at_api_server_ms", "kubectl get pods, 100 pods, at the kube-apiserver", "ms", None),
    ("fake_left_mib", "memory still held when all 1,000 are gone (fake://)", "MiB", None),
]


def judged(figures):
    """Rows of what was measured: text, value, unit, limit, and whether it holds."""
    for key, text, unit, limit in PROMISES:
        if key not in figures:
            continue
        if isinstance(limit, str):
            limit = figures.get(limit)
        value = figures[key]
        yield text, value, unit, limit, None if limit is None else value <= limit


def table(figures):
    lines = [f"{'PROMISE':74} {'MEASURED':>12} {'AT MOST':>10}"]
    for text, value, unit, limit, holds in judged(figures):
        most = "" if limit is None else f"{limit:g} {unit}".strip()
        lines.append(f"{text:74} {f'{value:g} {unit}'.strip():>12} {most:>10} {'' if holds is None else 'yes' if holds else 'NO'}")
    return "\n".join(lines)


def svg(figures):
    """Each promise as a bar: how much of its limit is used. The line is the limit."""
    rows = [row for row in judged(figures) if row[3]]
    left, width, step = 430, 300, 24
    height = step * len(rows) + 50
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + int(width * 1.6) + 90}" height="{height}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left + width}" y="18" text-anchor="middle">promised</text>']
    for number, (text, value, unit, limit, holds) in enumerate(rows):
        y = 30 + number * step
        length = min(value / limit, 1.6) * width
        out.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{html.escape(text)}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{step - 8}" fill="{"#4a8" if holds else "#c54"}"/>')
        out.append(f'<text x="{left + length + 6:.1f}" y="{y + 13}">{value:g} {html.escape(unit)}</text>')
    out.append(f'<line x1="{left + width}" x2="{left + width}" y1="24" y2="{height - 16}" stroke="black" stroke-dasharray="4"/>')
    return "\n".join(out + ["</svg>", ""])
