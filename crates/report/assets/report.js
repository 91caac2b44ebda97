// Draws the charts of a report from the block of JSON in it. Every text goes into the page as text, never as markup.
(() => {
  'use strict';

  const run = JSON.parse(document.getElementById('run').textContent);
  const drawn = new Map();

  // Numbers: the same rules as figures.rs.

  const digits = (value) => {
    const size = Math.abs(value);
    if (size === 0) return '0';
    if (size >= 1000) return String(Math.round(value));
    return String(Number(value.toPrecision(3)));
  };
  const scaled = (value, steps) => {
    let step = 0;
    while (Math.abs(value) >= 999.5 && step + 1 < steps.length) {
      value /= 1000;
      step += 1;
    }
    return digits(value) + steps[step];
  };
  const seconds = (value) => {
    const size = Math.abs(value);
    if (size === 0) return '0';
    if (size < 999.5e-9) return digits(value * 1e9) + ' ns';
    if (size < 999.5e-6) return digits(value * 1e6) + ' µs';
    if (size < 0.9995) return digits(value * 1e3) + ' ms';
    return digits(value) + ' s';
  };
  const units = {
    s: seconds,
    '/s': (value) => scaled(value, ['', 'k', 'M', 'G', 'T']) + '/s',
    B: (value) => scaled(value, [' B', ' kB', ' MB', ' GB', ' TB']),
    'B/s': (value) => scaled(value, [' B', ' kB', ' MB', ' GB', ' TB']) + '/s',
    share: (value) => digits(value * 100) + ' %',
    points: (value) => digits(value * 100) + ' pp',
    // Around 1 it is the difference from 1 that matters.
    ratio: (value) => (Math.abs(value - 1) < 0.1 ? String(Number(value.toPrecision(4))) : digits(value)),
    '': (value) => scaled(value, ['', 'k', 'M', 'G', 'T']),
  };
  const quantile = (place) => {
    const above = 100 * 10 ** -place;
    return place === 0 ? '0 %' : Number((100 - above).toFixed(Math.max(0, Math.ceil(place) - 1 + (place < 1 ? 1 : 0)))) + ' %';
  };

  // The functions that the options name.

  const weekdays = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
  const format = (name) => {
    if (name === '@quantile') return quantile;
    // Local times stand in charts as if they were UTC.
    if (name === '@time') return (value) => new Date(value).toISOString().slice(0, 19).replace('T', ' ');
    if (name === '@clock') {
      return (value) => {
        const time = new Date(value);
        const clock = time.toISOString().slice(11, value % 60000 ? 19 : 16);
        return clock === '00:00' ? weekdays[time.getUTCDay()] + ' ' + time.getUTCDate() : clock;
      };
    }
    const [kind, unit] = [name.slice(1, 4), name.slice(5)];
    const told = units[unit] || units[''];
    return kind === 'pow' ? (value) => told(Number((10 ** value).toPrecision(6))) : (value) => told(Number(value.toPrecision(6)));
  };
  const tip = (head, rows) => {
    const box = document.createElement('div');
    box.className = 'tip';
    const title = document.createElement('b');
    title.textContent = head;
    box.append(title);
    for (const [name, value] of rows) {
      const row = document.createElement('div');
      const left = document.createElement('span');
      left.textContent = name;
      const right = document.createElement('span');
      right.textContent = value;
      row.append(left, right);
      box.append(row);
    }
    return box;
  };
  /** A bar from low to high with a cap at each end; `at` orders value and place as x and y, `cap` is half of a cap in pixels. */
  const whisker = (at, [capX, capY]) => (parameters, api) => {
    const [low, place, high] = [api.value(0), api.value(1), api.value(2)];
    const ends = [api.coord(at(low, place)), api.coord(at(high, place))];
    const style = { stroke: api.visual('color'), lineWidth: 3, lineCap: 'round' };
    const line = ([x1, y1], [x2, y2]) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style });
    const cap = ([x, y]) => line([x - capX, y - capY], [x + capX, y + capY]);
    return { type: 'group', children: [line(...ends), ...ends.map(cap)] };
  };
  const functionsOf = (words) => ({
    '@rows': (place) => words.rows[Math.round(place)] ?? '',
    '@row': (point) => tip(words.rows[Math.round(point.value[1])] ?? '', [[point.name, '']]),
    '@name': (point) => tip(point.name, []),
    '@axis': (points) => {
      const seen = points.filter((point) => !/ (low|band|trials)$/.test(point.seriesId));
      if (seen.length === 0) return '';
      const [x, y] = [format(words.x), format(words.y)];
      const name = (point) => (words.names[Number(point.seriesName.slice(5))] ?? '') + (point.seriesId.endsWith(' published') ? ', published' : '');
      return tip(x(seen[0].value[0]), seen.filter((point) => point.value[1] != null).map((point) => [name(point), y(point.value[1])]));
    },
    '@whisker': whisker((value, place) => [value, place], [0, 4]),
    '@upright': whisker((value, place) => [place, value], [4, 0]),
  });

  /** Puts functions in the place of their names; only where ECharts takes functions, so that no text of the run is taken for one. */
  const resolved = (option, functions) => {
    if (Array.isArray(option)) return option.map((part) => resolved(part, functions));
    if (option === null || typeof option !== 'object') return option;
    const copy = {};
    for (const [key, value] of Object.entries(option)) {
      if ((key === 'formatter' || key === 'renderItem') && typeof value === 'string') {
        copy[key] = functions[value] ?? format(value);
      } else {
        copy[key] = key === 'data' ? value : resolved(value, functions);
      }
    }
    return copy;
  };

  // How all charts look.

  const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", Arial, sans-serif';
  const ink = { color: 'var(--ink-2)', fontFamily: font, fontSize: 12 };
  const axisLook = (axis) => ({
    nameTextStyle: ink,
    splitNumber: 5,
    ...axis,
    axisLabel: { ...ink, ...axis.axisLabel },
    axisLine: { onZero: false, lineStyle: { color: 'var(--line)' }, ...axis.axisLine },
    axisTick: { lineStyle: { color: 'var(--line)' }, ...axis.axisTick },
    splitLine: { lineStyle: { color: 'var(--grid)' }, ...axis.splitLine },
  });
  const looks = (option, says) => ({
    animation: false,
    darkMode: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: font, color: 'var(--ink-2)' },
    aria: { enabled: true, label: { description: says }, decal: { show: false } },
    ...option,
    xAxis: Array.isArray(option.xAxis) ? option.xAxis.map(axisLook) : axisLook(option.xAxis),
    yAxis: Array.isArray(option.yAxis) ? option.yAxis.map(axisLook) : axisLook(option.yAxis),
    tooltip: {
      confine: true, backgroundColor: 'var(--raised)', borderColor: 'var(--line)', padding: [6, 10], transitionDuration: 0,
      axisPointer: { type: 'line', lineStyle: { color: 'var(--ink-2)', type: 'solid', width: 1 }, animation: false },
      ...option.tooltip,
    },
    series: option.series.map((series) => ({ emphasis: { disabled: true }, ...series, itemStyle: { opacity: 1, ...series.itemStyle } })),
  });

  /** Room for the names of rows: what the longest needs, but never half of the chart. */
  const measuring = document.createElement('canvas').getContext('2d');
  const nameWidth = (names, width) => {
    measuring.font = '12px ' + font;
    const longest = Math.max(0, ...names.map((name) => measuring.measureText(name).width));
    return Math.min(Math.ceil(longest) + 4, Math.max(90, Math.floor(width * 0.4)));
  };
  const fitted = (option, words, width) => {
    if (option.grid?.left !== '@rows') return option;
    const room = nameWidth(words.rows, width);
    return {
      ...option,
      grid: { ...option.grid, left: room + 12 },
      yAxis: { ...option.yAxis, axisLabel: { ...option.yAxis.axisLabel, width: room, overflow: 'break', lineHeight: 12, height: 24, lineOverflow: 'truncate', fontSize: width < 500 ? 10.5 : 12 } },
    };
  };

  const scalable = (chart, element) => {
    const svg = element.querySelector('svg');
    if (svg) svg.setAttribute('viewBox', `0 0 ${chart.getWidth()} ${chart.getHeight()}`);
  };
  const start = (element, optionOf) => {
    const chart = echarts.init(element, null, { renderer: 'svg' });
    chart.on('rendered', () => scalable(chart, element));
    const entry = { chart, width: 0, optionOf };
    drawn.set(element.id, entry);
    sized.observe(element);
    refresh(element);
    return chart;
  };
  const refresh = (element) => {
    const entry = drawn.get(element.id);
    const width = element.clientWidth;
    if (!entry || width === 0) return;
    entry.width = width;
    entry.chart.resize();
    entry.chart.setOption(entry.optionOf(width), { notMerge: true });
    scalable(entry.chart, element);
  };
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const entry = drawn.get(target.id);
      if (entry && Math.abs(entry.width - target.clientWidth) > 1 && !matchMedia('print').matches) refresh(target);
    }
  });

  // The charts that stand in the page.

  const shownSeries = (id) => {
    const selected = {};
    for (const box of document.querySelectorAll(`input[data-chart="${id}"]`)) selected[box.dataset.series] = box.checked;
    return selected;
  };
  const draw = (element) => {
    if (drawn.has(element.id)) return;
    const { option, words } = run.charts[element.id];
    const ready = resolved(option, functionsOf(words));
    const says = element.getAttribute('aria-label');
    start(element, (width) => {
      const full = looks(fitted(ready, words, width), says);
      return full.legend ? { ...full, legend: { ...full.legend, selected: shownSeries(element.id) } } : full;
    });
    for (const box of document.querySelectorAll(`input[data-chart="${element.id}"]`)) box.addEventListener('change', () => refresh(element));
  };

  // One trial over its time.

  const time = run.time;
  let timeSays = '';
  const timePlot = document.getElementById('time-plot');
  // The load has the colour of the trial's combination; everything beside it is grey.
  const greyed = (index) => ({ colour: `var(--n${index % 3})`, dashes: [[], [7, 4], [2, 3], [9, 3, 2, 3]][index % 4] });
  const lookOf = (trial, index) => (index === 0 ? { colour: trial.colour, dashes: [] } : greyed(index - 1));
  const chosen = () => time.trials[Number(document.getElementById('time-trial').value)];
  const chosenInstrument = () => Number(document.getElementById('time-instrument').value);
  const linesOf = (trial, wanted) => trial.lines.filter(([instrument]) => instrument === wanted).map(([, source, t, v]) => ({ of: time.sources[source], t, v }));
  const pairs = (xs, ys) => xs.map((x, index) => [x, ys[index]]);
  const panel = (index, top, height, name, told, more) => ({
    grid: { left: 68, right: 16, top, height },
    xAxis: { gridIndex: index, type: 'value', min: 0, axisLabel: { show: index === 2, formatter: (value) => seconds(value), showMaxLabel: false }, splitLine: { show: false } },
    yAxis: { gridIndex: index, type: 'value', name, nameLocation: 'end', nameTextStyle: { ...ink, align: 'left', padding: [0, 0, 0, -56] }, axisLabel: { formatter: told, showMaxLabel: true }, splitNumber: 3, ...more },
  });
  const timeSeries = (trial, instrument) => {
    const series = [];
    const line = (panelIndex, name, points, look, more) => series.push({
      type: 'line', name, data: points, xAxisIndex: panelIndex, yAxisIndex: panelIndex, symbol: points.length > 40 ? 'none' : 'circle', symbolSize: 4,
      itemStyle: { color: look.colour }, lineStyle: { color: look.colour, width: 1.8, type: look.dashes.length ? look.dashes : 'solid', ...more },
    });
    trial.workloads.forEach((workload, place) => {
      const look = lookOf(trial, place);
      line(0, workload.name + ', rate', pairs(trial.times[workload.t], workload.rate), look);
      if (workload.errors.length > 0) line(0, workload.name + ', errors', pairs(trial.times[workload.t], workload.errors), look, { type: [2, 3] });
      const inSeconds = (column) => column.map((value) => value / 1e6);
      line(1, workload.name + ', median', pairs(trial.times[workload.t], inSeconds(workload.p50)), look);
      line(1, workload.name + ', 99th percentile', pairs(trial.times[workload.t], inSeconds(workload.p99)), look, { type: [6, 4], width: 1.4 });
    });
    linesOf(trial, instrument).forEach((one, index) => line(2, one.of, pairs(trial.times[one.t], one.v), greyed(index)));
    const warmUp = Math.max(0, ...trial.workloads.map((workload) => workload.from));
    if (warmUp > 0) {
      for (const panelIndex of [0, 1, 2]) {
        const first = series.find((one) => one.xAxisIndex === panelIndex);
        if (first) first.markArea = { silent: true, itemStyle: { color: 'var(--zone-floor)' }, data: [[{ xAxis: 0 }, { xAxis: warmUp }]] };
      }
    }
    for (const panelIndex of [0, 1, 2]) {
      const first = series.find((one) => one.xAxisIndex === panelIndex);
      // Their names stand once, above the first panel.
      const label = { show: panelIndex === 0, position: 'end', rotate: 0, color: 'var(--ink-2)', formatter: ({ name }) => name };
      if (first && trial.faults.length > 0) {
        first.markLine = { silent: true, symbol: 'none', lineStyle: { color: 'var(--ink-2)', type: 'solid', width: 1 }, label, data: trial.faults.map(([at, name]) => ({ xAxis: at, name })) };
      }
    }
    return series;
  };
  const timeOption = () => {
    const trial = chosen();
    const instrument = chosenInstrument();
    const { name, unit } = time.instruments[instrument] ?? time.instruments[0];
    const times = trial.workloads.flatMap((workload) => [...workload.p50, ...workload.p99]).filter((value) => value > 0);
    const isLog = times.length > 0 && Math.max(...times) / Math.min(...times) > 20;
    const panels = [
      panel(0, 34, 120, 'responses', units['/s']),
      panel(1, 208, 130, 'response time', seconds, isLog ? { type: 'log', min: (value) => 10 ** Math.floor(Math.log10(value.min)), max: (value) => 10 ** Math.ceil(Math.log10(value.max)) } : {}),
      panel(2, 392, 120, name, units[unit]),
    ];
    const told = [units['/s'], seconds, units[unit]];
    panels.forEach((one) => { one.xAxis.max = trial.length; });
    return {
      grid: panels.map((one) => one.grid),
      xAxis: panels.map((one) => one.xAxis),
      yAxis: panels.map((one) => one.yAxis),
      axisPointer: { link: [{ xAxisIndex: 'all' }] },
      tooltip: {
        trigger: 'axis',
        formatter: (points) => tip(seconds(Number(points[0].value[0].toPrecision(4))), points.map((point) => [point.seriesName, told[point.axisIndex](point.value[1])])),
      },
      series: timeSeries(trial, instrument),
    };
  };
  const keyItem = (name, look) => {
    const item = document.createElement('li');
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    svg.setAttribute('viewBox', '0 0 24 8');
    svg.setAttribute('class', 'swatch');
    svg.setAttribute('aria-hidden', 'true');
    const line = document.createElementNS(space, 'line');
    for (const [key, value] of Object.entries({ x1: 1, y1: 4, x2: 23, y2: 4, stroke: look.colour, 'stroke-width': 3, 'stroke-dasharray': look.dashes.join(' ') })) line.setAttribute(key, value);
    svg.append(line);
    item.append(svg, name);
    return item;
  };
  const table = (names, rows) => {
    const element = document.createElement('table');
    const head = element.createTHead().insertRow();
    for (const name of names) {
      const cell = document.createElement('th');
      cell.scope = 'col';
      cell.textContent = name;
      head.append(cell);
    }
    const body = element.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      for (const text of row) line.insertCell().textContent = text;
    }
    return element;
  };
  const timeTable = () => {
    const trial = chosen();
    const instrument = chosenInstrument();
    const rows = [];
    for (const workload of trial.workloads) {
      trial.times[workload.t].forEach((at, index) => rows.push([
        workload.name, seconds(at), units['/s'](workload.rate[index]), units['/s'](workload.errors[index] ?? 0), seconds(workload.p50[index] / 1e6), seconds(workload.p99[index] / 1e6), '',
      ]));
    }
    const { name, unit } = time.instruments[instrument];
    for (const line of linesOf(trial, instrument)) {
      trial.times[line.t].forEach((at, index) => rows.push([line.of, seconds(at), '', '', '', '', units[unit](line.v[index])]));
    }
    for (const [at, name] of trial.faults) rows.push([name, seconds(at), '', '', '', '', '']);
    return table(['of', 'at', 'rate', 'errors', 'median', '99th percentile', name], rows);
  };
  const showTrial = () => {
    const trial = chosen();
    const instrument = chosenInstrument();
    const select = document.getElementById('time-trial');
    const what = time.instruments[instrument].name;
    timeSays = `Rate, response time and ${what} over the time of trial ${select.selectedOptions[0].textContent}`;
    timePlot.setAttribute('aria-label', timeSays);
    const key = document.getElementById('time-key');
    key.replaceChildren(
      ...trial.workloads.map((workload, index) => keyItem('workload ' + workload.name, lookOf(trial, index))),
      ...linesOf(trial, instrument).map((one, index) => keyItem(`${what} of ${one.of}`, greyed(index))),
    );
    const data = document.getElementById('time-data');
    data.querySelector('div').replaceChildren();
    if (data.open) data.querySelector('div').replaceChildren(timeTable());
    document.getElementById('time-previous').disabled = select.selectedIndex === 0;
    document.getElementById('time-next').disabled = select.selectedIndex === select.options.length - 1;
    if (drawn.has(timePlot.id)) refresh(timePlot);
  };
  const drawTime = () => {
    if (drawn.has(timePlot.id)) return;
    start(timePlot, () => looks(timeOption(), timeSays));
  };
  const startTime = () => {
    const trial = document.getElementById('time-trial');
    const instrument = document.getElementById('time-instrument');
    const known = new Set(time.trials.flatMap((one) => one.lines.map(([instrument]) => instrument)));
    time.instruments.forEach(({ name }, index) => { if (known.has(index)) instrument.add(new Option(name, index)); });
    if (known.size === 0) instrument.add(new Option('none', 0));
    const step = (by) => () => {
      trial.selectedIndex = Math.min(Math.max(trial.selectedIndex + by, 0), trial.options.length - 1);
      showTrial();
    };
    trial.addEventListener('change', showTrial);
    instrument.addEventListener('change', showTrial);
    document.getElementById('time-previous').addEventListener('click', step(-1));
    document.getElementById('time-next').addEventListener('click', step(1));
    document.getElementById('time-data').addEventListener('toggle', showTrial);
    showTrial();
  };

  // Everything is drawn in the end, what is seen first; and before it is printed.

  const plots = [...document.querySelectorAll('.plot')];
  // A plot within a closed part has no size: it is drawn when the part is opened.
  const drawAny = (element) => {
    if (element.clientWidth === 0) return;
    if (element === timePlot) drawTime();
    else draw(element);
  };
  for (const part of document.querySelectorAll('details.measure')) part.addEventListener('toggle', () => part.querySelectorAll('.plot').forEach(drawAny));
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) drawAny(target);
  }, { rootMargin: '600px' });
  const drawRest = () => {
    const next = plots.find((element) => !drawn.has(element.id) && element.clientWidth > 0);
    if (!next) {
      document.documentElement.dataset.drawn = String(drawn.size);
      return;
    }
    drawAny(next);
    setTimeout(drawRest, 0);
  };
  const revealTarget = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let element = target; element; element = element.parentElement) if (element.tagName === 'DETAILS') element.open = true;
    if (target) target.scrollIntoView();
  };

  // Light, dark, or as the system has it.

  const buttons = [...document.querySelectorAll('[data-colours]')].filter((element) => element.tagName === 'BUTTON');
  const setColours = (colours) => {
    if (colours === 'auto') delete document.documentElement.dataset.colours;
    else document.documentElement.dataset.colours = colours;
    for (const button of buttons) button.setAttribute('aria-pressed', String(button.dataset.colours === colours));
  };
  const remembered = () => { try { return localStorage.getItem('breme-colours'); } catch { return null; } };
  for (const button of buttons) {
    button.addEventListener('click', () => {
      setColours(button.dataset.colours);
      try { localStorage.setItem('breme-colours', button.dataset.colours); } catch { /* a file may have no storage */ }
    });
  }

  if (['light', 'dark'].includes(remembered())) setColours(remembered());
  if (timePlot && time) startTime();
  plots.forEach((element) => seen.observe(element));
  addEventListener('beforeprint', () => plots.forEach(drawAny));
  addEventListener('hashchange', revealTarget);
  revealTarget();
  setTimeout(drawRest, 300);
})();
