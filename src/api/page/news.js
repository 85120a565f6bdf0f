
// --- Logs ----------------------------------------------------------------------------------------------------------

const logs = (() => {
  let shown = null, stop = null, length = 0, isOver = true;
  const text = $('logs-text'), note = $('logs-note');

  function add(piece) {
    // Colours of terminals, and what else is not for reading.
    const clean = piece.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '').replace(/[\x00-\x08\x0b-\x1f]/g, '');
    const isAtEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 30;
    text.append(clean);
    length += clean.length;
    while (length > MOST_LOG && text.childNodes.length > 1) {
      length -= text.firstChild.length;
      text.firstChild.remove();
    }
    if (isAtEnd) text.scrollTop = text.scrollHeight;
  }

  async function load() {
    stop?.abort();
    const own = stop = new AbortController();
    const follow = $('logs-follow').checked && !$('logs-previous').checked;
    text.replaceChildren();
    length = 0;
    isOver = false;
    put(note, 'loading');
    const query = new URLSearchParams({ ns: shown.ns, pod: shown.name, container: $('logs-container').value, lines: '2000', follow, previous: $('logs-previous').checked });
    try {
      const answer = await fetch(`/page/log?${query}`, { signal: own.signal, cache: 'no-store' });
      if (answer.status === 401) return ended();
      if (!answer.ok) return put(note, words(await answer.text()));
      put(note, follow ? 'following' : '');
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece; !(piece = await reader.read()).done;) add(piece.value);
      put(note, follow ? 'the container has ended' : length ? 'end of the log' : 'the log is empty');
    } catch (error) {
      if (own.signal.aborted) return;
      put(note, 'the log was cut off');
    } finally {
      if (own === stop) isOver = true;
    }
  }

  // A refusal is text, or a Status.
  function words(answer) {
    try { return JSON.parse(answer).message || answer; } catch (error) { return answer; }
  }

  function previous() {
    const one = shown.containers.find((other) => other.name === $('logs-container').value);
    $('logs-previous-label').hidden = !one?.previous;
    if (!one?.previous) $('logs-previous').checked = false;
  }

  for (const id of ['logs-container', 'logs-follow', 'logs-previous']) {
    $(id).addEventListener('change', () => { previous(); load(); });
  }
  $('logs-close').addEventListener('click', () => $('logs').close());
  $('logs').addEventListener('close', () => { stop?.abort(); shown = null; });

  return {
    open(view, container) {
      shown = view;
      put($('logs-title'), view.name);
      $('logs-container').replaceChildren(...view.containers.map((one) => {
        const option = make('option', '', one.name);
        option.value = one.name;
        return option;
      }));
      $('logs-container').value = container;
      $('logs-previous').checked = false;
      previous();
      $('logs').showModal();
      load();
    },
    // A container that was followed to its end runs again.
    changed(view) {
      if (!shown || keyOf(view) !== keyOf(shown)) return;
      shown = view;
      previous();
      const one = view.containers.find((other) => other.name === $('logs-container').value);
      if (isOver && one?.state === 'Running' && $('logs-follow').checked && !$('logs-previous').checked) load();
    },
  };
})();

// --- News ----------------------------------------------------------------------------------------------------------

let source = null, again = 0, resting = 0;

function state(tone, text) {
  pill($('link'), tone, text);
  // What is shown may be old: nothing of it looks well.
  document.body.classList.toggle('old', tone !== 'good');
}

function ended() {
  source?.close();
  source = null;
  clearTimeout(again);
  state('bad', 'ended: run "podkeeper page" for another link');
}

function listen() {
  clearTimeout(again);
  source?.close();
  const own = source = new EventSource('/page/news');
  const on = (name, take) => own.addEventListener(name, (event) => { take(JSON.parse(event.data)); });
  on('all', (all) => {
    offset = all.now - Date.now();
    [span, step] = [all.span, all.step];
    state('good', 'live');
    takeNode(all.node);
    const there = new Set(all.pods.map(keyOf));
    for (const key of [...pods.keys()]) if (!there.has(key)) dropPod(key);
    for (const pod of all.pods) takePod(pod, true);
    for (const event of events.values()) event.element.remove();
    events.clear();
    $('no-events').hidden = false;
    for (const event of all.events) takeEvent(event);
    takeFigures(all.figures);
    showCounts();
  });
  on('pod', (pod) => { takePod(pod); showCounts(); });
  on('gone', (pod) => { dropPod(keyOf(pod)); showCounts(); });
  on('event', takeEvent);
  on('node', takeNode);
  on('figures', takeFigures);
  own.addEventListener('error', async () => {
    if (own !== source) return;
    state('waits', 'connecting again');
    if (own.readyState !== EventSource.CLOSED) return;
    // The browser gives up after a refusal, and does not say which one.
    const answer = await fetch('/', { method: 'HEAD', cache: 'no-store' }).catch(() => null);
    if (own !== source) return;
    if (answer && answer.status === 401) return ended();
    again = setTimeout(listen, 5000);
  });
}

// Nobody looks: nothing needs to be told or measured.
document.addEventListener('visibilitychange', () => {
  clearTimeout(resting);
  if (document.hidden) {
    resting = setTimeout(() => { source?.close(); source = null; clearTimeout(again); state('waits', 'resting'); }, 20000);
  } else if (!source && $('link').dataset.tone !== 'bad') {
    listen();
  }
});

$('filter').addEventListener('input', refilter);
$('only-bad').addEventListener('change', refilter);
$('only-warnings').addEventListener('change', () => {
  for (const { element, view } of events.values()) element.hidden = $('only-warnings').checked && view.type !== 'Warning';
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || $('logs').open || event.target.matches('input, select')) return;
  event.preventDefault();
  $('filter').focus();
});
setInterval(() => {
  if (document.hidden) return;
  for (const element of document.querySelectorAll('[data-since]')) put(element, age(Number(element.dataset.since)));
}, 5000);
$('node-cpu-chart').classList.add('cpu');
$('node-memory-chart').classList.add('memory');
listen();
