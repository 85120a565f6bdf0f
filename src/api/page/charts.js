'use strict';
// The page of a node, in four files that are one script. What comes from pods is put into the document as text, never as
// HTML. Here: words, and figures as lines.
const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';
const MOST_EVENTS = 300, MOST_LOG = 1500000;

const pods = new Map();     // namespace/name -> { view, element, … }
const events = new Map();   // key -> { view, element }
const figures = new Map();  // UID -> [time, thousandths of a core, KiB]
let ofNode = [];
let node = {}, offset = 0, span = 300, step = 5;

// --- Words ---------------------------------------------------------------------------------------------------------

const make = (tag, of, text) => {
  const element = document.createElement(tag);
  if (of) element.className = of;
  if (text !== undefined) element.textContent = text;
  return element;
};
const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const keyOf = (pod) => `${pod.ns}/${pod.name}`;
const cores = (milli) => milli >= 1000 ? `${(milli / 1000).toFixed(2)} cores` : `${milli} m`;
const bytes = (kib) => {
  if (kib < 1024) return `${kib} KiB`;
  const mib = kib / 1024;
  return mib < 1024 ? `${mib.toFixed(mib < 10 ? 1 : 0)} MiB` : `${(mib / 1024).toFixed(2)} GiB`;
};
const age = (since) => {
  if (!since) return '';
  const s = Math.max(0, Math.round((Date.now() + offset) / 1000 - since));
  if (s < 120) return `${s}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
};
const since = (element, time) => {
  element.dataset.since = time || '';
  put(element, age(time));
};
const pill = (element, tone, text) => {
  element.dataset.tone = tone;
  put(element, text);
};

// --- Charts --------------------------------------------------------------------------------------------------------

// A line over the last minutes, with gaps where nobody looked. `at` is 1 for CPU, 2 for memory.
function draw(into, points, at, limit) {
  const now = performance.now(), high = 30, wide = 100;
  const top = Math.max(at === 1 ? 10 : 1024, ...points.map((point) => point[at])) * 1.15;
  const x = (time) => (wide * (1 - (now - time) / 1000 / span)).toFixed(2);
  const y = (value) => (high * (1 - value / top)).toFixed(2);
  let line = '', area = '', first = null, last = null;
  const close = () => { if (first) area += `L${x(last[0])},${high}L${x(first[0])},${high}Z`; };
  for (const point of points) {
    const isNew = !last || point[0] - last[0] > step * 3500;
    if (isNew) { close(); first = point; }
    const place = `${isNew ? 'M' : 'L'}${x(point[0])},${y(point[at])}`;
    line += place;
    area += place;
    last = point;
  }
  close();
  let svg = into.firstElementChild;
  if (!svg) {
    svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', `0 0 ${wide} ${high}`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('aria-hidden', 'true');
    for (const of of ['area', 'line', 'limit']) {
      const path = document.createElementNS(SVG, 'path');
      path.setAttribute('class', of);
      svg.append(path);
    }
    into.append(svg);
  }
  const [areaPath, linePath, limitPath] = svg.children;
  areaPath.setAttribute('d', area);
  linePath.setAttribute('d', line);
  limitPath.setAttribute('d', limit && limit <= top ? `M0,${y(limit)}H${wide}` : '');
}

function keep(all, points) {
  const now = performance.now();
  for (const [old, cpu, memory] of points) {
    const time = now - old;
    // After the stream was begun anew the same points come again.
    if (!all.length || time > all[all.length - 1][0] + step * 400) all.push([time, cpu, memory]);
  }
  while (all.length && now - all[0][0] > span * 1000) all.shift();
  return all;
}

function takeFigures(news) {
  keep(ofNode, news.node);
  for (const [uid, points] of Object.entries(news.pods)) figures.set(uid, keep(figures.get(uid) || [], points));
  showNodeFigures();
  for (const pod of pods.values()) showFigures(pod);
}

function showNodeFigures() {
  const last = ofNode[ofNode.length - 1];
  if (!last) return;
  put($('node-cpu'), cores(last[1]));
  put($('node-memory'), bytes(last[2]));
  put($('node-cpu-of'), node.cpu ? `${Math.round(last[1] / node.cpu * 100)} % of ${cores(node.cpu).replace('.00', '')}` : '');
  put($('node-memory-of'), node.memory ? `${Math.round(last[2] / node.memory * 100)} % of ${bytes(node.memory)}` : '');
  draw($('node-cpu-chart'), ofNode, 1, node.cpu);
  draw($('node-memory-chart'), ofNode, 2, node.memory);
}

function showFigures(pod) {
  const points = figures.get(pod.view.uid) || [];
  while (points.length && performance.now() - points[0][0] > span * 1000) points.shift();
  const last = points[points.length - 1];
  const isFresh = last && performance.now() - last[0] < step * 4000;
  put(pod.cpu.text, isFresh ? cores(last[1]) : '–');
  put(pod.memory.text, isFresh ? bytes(last[2]) : '–');
  if (pod.element.hidden) return;
  draw(pod.cpu.chart, points, 1, pod.view.cpu);
  draw(pod.memory.chart, points, 2, pod.view.memory);
  if (pod.large) showLarge(pod, points);
}

// What a chart shows of the last minutes: figures are measured only while a page is open.
function seen(points) {
  let time = 0;
  for (let at = 1; at < points.length; at++) {
    const gap = points[at][0] - points[at - 1][0];
    if (gap <= step * 3500) time += gap / 1000;
  }
  const all = `${Math.round(span / 60)} minutes`;
  if (time > span - 3 * step) return all;
  return `${time < 100 ? `${Math.round(time)} s` : `${Math.floor(time / 60)} min`} seen of ${all}`;
}

function showLarge(pod, points) {
  for (const [at, figure, word, limit] of [[1, pod.large.cpu, cores, pod.view.cpu], [2, pod.large.memory, bytes, pod.view.memory]]) {
    const values = points.map((point) => point[at]);
    const most = values.length ? `now ${word(values[values.length - 1])}, at most ${word(Math.max(...values))}` : 'no figures';
    put(figure.most, most + (limit ? `, limit ${word(limit)}` : ''));
    figure.chart.setAttribute('role', 'img');
    put(figure.title, `${at === 1 ? 'CPU' : 'Memory'}, ${seen(points)}`);
    figure.chart.setAttribute('aria-label', `${figure.title.textContent}: ${figure.most.textContent}`);
    draw(figure.chart, points, at, limit);
  }
}
