
// --- Pods ----------------------------------------------------------------------------------------------------------

let count = 0;

function figureCell(of, label) {
  const cell = make('td', 'fig');
  cell.setAttribute('role', 'cell');
  cell.dataset.label = label;
  const figure = make('div', 'figure'), chart = make('div', `chart ${of}`), text = make('span', '', '–');
  figure.append(chart, text);
  cell.append(figure);
  return { cell, chart, text };
}

function newPod() {
  const element = make('tbody'), row = make('tr', 'pod'), more = make('tr', 'more');
  element.setAttribute('role', 'rowgroup');
  row.setAttribute('role', 'row');
  more.setAttribute('role', 'row');
  more.id = `more-${count++}`;
  more.hidden = true;
  const head = make('th');
  head.scope = 'row';
  head.setAttribute('role', 'rowheader');
  const name = make('button', 'name'), ns = make('span', 'ns');
  name.type = 'button';
  name.setAttribute('aria-expanded', 'false');
  name.setAttribute('aria-controls', more.id);
  head.append(name, ns);
  const state = make('td', 'state'), status = make('span', 'pill'), why = make('div', 'why');
  state.append(status, why);
  const [ready, restarts, old] = ['Ready', 'Restarts', 'Age'].map((label) => {
    const cell = make('td', 'num');
    cell.dataset.label = label;
    return cell;
  });
  const cpu = figureCell('cpu', 'CPU'), memory = figureCell('memory', 'Memory');
  const oldText = make('span');
  old.append(oldText);
  for (const cell of [state, ready, restarts, old]) cell.setAttribute('role', 'cell');
  row.append(head, state, ready, restarts, old, cpu.cell, memory.cell);
  const inside = make('td');
  inside.colSpan = 7;
  inside.setAttribute('role', 'cell');
  more.append(inside);
  element.append(row, more);
  const pod = { element, more, inside, name, ns, status, why, ready, restarts, oldText, cpu, memory, large: null, view: null };
  name.addEventListener('click', () => {
    more.hidden = !more.hidden;
    name.setAttribute('aria-expanded', String(!more.hidden));
    pod.large = null;
    if (more.hidden) inside.replaceChildren(); else showMore(pod);
  });
  return pod;
}

const sentence = ([who, what, text]) => [who ? `${who}:` : '', text ? `${what}${what ? ': ' : ''}${text}` : what].filter(Boolean).join(' ');

function takePod(view, isQuiet) {
  const key = keyOf(view);
  let pod = pods.get(key);
  if (!pod) {
    pod = newPod();
    pods.set(key, pod);
    const after = [...pods.keys()].sort().find((other) => other > key);
    $('pods').insertBefore(pod.element, after ? pods.get(after).element : null);
  }
  const before = pod.view;
  pod.view = view;
  put(pod.name, view.name);
  put(pod.ns, view.ns);
  pill(pod.status, view.tone, view.status);
  put(pod.why, view.why.length ? sentence(view.why[0]) : '');
  put(pod.ready, view.ready);
  put(pod.restarts, String(view.restarts));
  since(pod.oldText, view.since);
  if (!pod.more.hidden) showMore(pod);
  filterOne(pod);
  showFigures(pod);
  if (!isQuiet && (!before || before.tone !== view.tone) && (view.tone === 'bad' || (before && before.tone === 'bad'))) {
    announce(`${view.name}: ${view.status}`);
  }
  logs.changed(view);
}

function fact(list, name, text) {
  if (!text) return;
  const pair = make('div');
  pair.append(make('dt', '', name), make('dd', '', text));
  list.append(pair);
}

function showMore(pod) {
  const view = pod.view, parts = [];
  const focused = pod.inside.contains(document.activeElement) ? document.activeElement.dataset.container : null;
  if (view.why.length) {
    const reasons = make('ul', 'reasons');
    for (const [who, what, text] of view.why) {
      const item = make('li');
      if (who) item.append(`${who} `);
      if (what) item.append(make('b', '', what), ' ');
      item.append(text);
      reasons.append(item);
    }
    parts.push(reasons);
  }
  const facts = make('dl', 'facts');
  fact(facts, 'Address', view.ip);
  fact(facts, 'Source', view.source);
  fact(facts, 'Class', view.qos);
  fact(facts, 'UID', view.uid);
  parts.push(facts, containerTable(view));
  const large = make('div', 'large');
  const chart = (of) => {
    const figure = make('figure'), caption = make('figcaption'), title = make('span'), most = make('span'), into = make('div', `chart ${of}`);
    caption.append(title, most);
    figure.append(caption, into);
    large.append(figure);
    return { title, most, chart: into };
  };
  pod.large = { cpu: chart('cpu'), memory: chart('memory') };
  parts.push(large);
  pod.inside.replaceChildren(...parts);
  showLarge(pod, figures.get(view.uid) || []);
  if (focused) [...pod.inside.querySelectorAll('button')].find((one) => one.dataset.container === focused)?.focus();
}

function containerTable(view) {
  const table = make('table', 'containers'), head = make('tr'), body = make('tbody'), top = make('thead');
  for (const [title, of] of [['Container'], ['State'], ['Restarts', 'num'], ['Image', 'image'], ['Log']]) {
    const cell = make('th', of, title);
    cell.scope = 'col';
    head.append(cell);
  }
  top.append(head);
  for (const one of view.containers) {
    const row = make('tr'), name = make('th', '', one.name), state = make('td', '', one.state), open = make('button', '', 'Log');
    name.scope = 'row';
    if (one.kind) name.append(' ', make('span', 'small', one.kind));
    if (one.since) {
      const time = make('span', 'small');
      since(time, one.since);
      state.append(' ', time);
    }
    if (one.state === 'Running' && !one.ready && one.kind !== 'debug') state.append(' ', make('span', 'small', 'not ready'));
    open.type = 'button';
    open.dataset.container = one.name;
    open.setAttribute('aria-label', `Log of ${one.name}`);
    open.addEventListener('click', () => logs.open(view, one.name));
    const last = make('td');
    last.append(open);
    row.append(name, state, make('td', 'num', String(one.restarts)), make('td', 'image small', one.image || ''), last);
    body.append(row);
  }
  table.append(top, body);
  return table;
}

function dropPod(key) {
  const pod = pods.get(key);
  if (!pod) return;
  figures.delete(pod.view.uid);
  pod.element.remove();
  pods.delete(key);
}

function filterOne(pod) {
  const text = $('filter').value.trim().toLowerCase(), view = pod.view;
  const words = `${view.ns}/${view.name} ${view.status}`.toLowerCase();
  const isWell = view.tone === 'good' || view.tone === 'done';
  pod.element.hidden = !words.includes(text) || ($('only-bad').checked && isWell);
}

function showCounts() {
  const all = [...pods.values()].map((pod) => pod.view.tone);
  const of = (tone) => all.filter((other) => other === tone).length;
  put($('count'), String(all.length));
  const parts = [[of('good'), 'well'], [of('waits'), 'on their way'], [of('bad'), 'not well'], [of('done'), 'done']];
  put($('count-more'), parts.filter(([number]) => number).map(([number, word]) => `${number} ${word}`).join(', '));
  const isShown = [...pods.values()].some((pod) => !pod.element.hidden);
  $('empty').hidden = isShown;
  put($('empty'), all.length ? 'No pod is like that.' : 'No pods.');
  document.title = `${of('bad') ? `(${of('bad')}) ` : ''}${node.name || ''} – podkeeper`;
}

function refilter() {
  for (const pod of pods.values()) { filterOne(pod); showFigures(pod); }
  showCounts();
}
