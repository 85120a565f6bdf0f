
// --- Node and events -----------------------------------------------------------------------------------------------

function takeNode(view) {
  node = view;
  put($('node-name'), view.name || 'podkeeper');
  $('node-state').hidden = false;
  pill($('node-state'), view.ready ? 'good' : 'bad', view.ready ? 'Ready' : 'Not ready');
  put($('versions'), `podkeeper ${view.version}${view.docker ? `, Docker ${view.docker}` : ''}. This page only shows.`);
  const notes = view.notes.map(([what, text]) => {
    const line = make('p');
    line.append(make('strong', '', what), ` ${text}`);
    return line;
  });
  $('notes').replaceChildren(...notes);
  $('notes').hidden = !notes.length;
  showNodeFigures();
}

function takeEvent(view) {
  let event = events.get(view.key);
  if (!event) {
    const element = make('li'), time = make('span', 'time'), reason = make('span', 'reason');
    const text = make('div', 'text'), of = make('span', 'of'), words = make('span');
    text.append(of, words);
    element.append(time, reason, text);
    event = { element, time, reason, of, words };
    events.set(view.key, event);
  }
  event.view = view;
  event.element.dataset.type = view.type;
  since(event.time, view.last);
  put(event.reason, view.reason + (view.count > 1 ? ` ×${view.count}` : ''));
  put(event.of, `${view.ns ? `${view.ns}/` : ''}${view.name} `);
  put(event.words, view.text);
  event.element.hidden = $('only-warnings').checked && view.type !== 'Warning';
  // The newest stands on top.
  events.delete(view.key);
  events.set(view.key, event);
  $('events').prepend(event.element);
  for (const [key, old] of events) {
    if (events.size <= MOST_EVENTS) break;
    old.element.remove();
    events.delete(key);
  }
  $('no-events').hidden = true;
}

// --- What a screen reader is told: what goes wrong and what recovers, a few words now and then ---------------------

let toSay = [], saying = 0;
function announce(text) {
  toSay.push(text);
  if (saying) return;
  saying = setTimeout(() => {
    const more = toSay.length > 3 ? `, and ${toSay.length - 3} more` : '';
    put($('say'), toSay.slice(0, 3).join('; ') + more);
    toSay = [];
    saying = 0;
  }, 1500);
}
