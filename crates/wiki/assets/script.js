// What makes the wiki more comfortable. Everything works without it.
'use strict';

// Suggestions in the search box.
const search = document.getElementById('search');
const suggestions = document.getElementById('suggestions');
if (search && suggestions) {
  let last = '';
  search.addEventListener('input', async () => {
    const text = search.value.trim();
    if (text === last) return;
    last = text;
    if (!text) {
      suggestions.replaceChildren();
      return;
    }
    const response = await fetch(`/suggest?q=${encodeURIComponent(text)}`).catch(() => null);
    if (!response || !response.ok || last !== text) return;
    const [, names] = await response.json();
    suggestions.replaceChildren(...names.map((name) => new Option(name, name)));
    // Somebody who has chosen a whole name wants its page.
    suggestions.dataset.names = JSON.stringify(names);
  });
  search.form.addEventListener('submit', (event) => {
    const names = JSON.parse(suggestions.dataset.names ?? '[]');
    const name = names.find((one) => one === search.value.trim());
    if (!name) return;
    event.preventDefault();
    location.assign(`/wiki/${encodeURIComponent(name.replaceAll(' ', '_'))}`);
  });
}

// The edit form: a preview beside the text, Ctrl+S, a warning before unsaved text is lost.
const form = document.getElementById('edit');
const text = document.getElementById('text');
if (form && text) {
  const live = document.getElementById('live');
  const column = live.closest('.column');
  let timer = 0;
  let controller = new AbortController();
  const show = async () => {
    controller.abort();
    controller = new AbortController();
    const body = new URLSearchParams({ name: form.dataset.name, text: text.value });
    const response = await fetch('/preview', { method: 'POST', body, signal: controller.signal }).catch(() => null);
    if (!response || !response.ok) return;
    // The server cleans it as it cleans every page; the policy of this page forbids scripts in it.
    live.innerHTML = await response.text();
    form.dataset.previewed = text.value.length;
  };
  column.hidden = false;
  form.classList.add('has-live');
  show();
  text.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(show, 300);
  });

  const before = text.value;
  let isSaving = false;
  form.addEventListener('submit', () => { isSaving = true; });
  addEventListener('beforeunload', (event) => {
    if (!isSaving && text.value !== before) event.preventDefault();
  });
  addEventListener('keydown', (event) => {
    if (event.key !== 's' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit(form.querySelector('button[value=save]'));
  });
}

// Times of changes in the reader's own zone, on demand.
for (const time of document.querySelectorAll('time[datetime]')) {
  time.title = new Date(time.dateTime).toLocaleString();
}
